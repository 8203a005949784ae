import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { operatorMetrics } from './metrics.ts';

test('counts calls by whom they were for, and nodes by what their probes have shown', async () => {
  const registry = new Registry();
  const metrics = operatorMetrics(registry);
  metrics.observeCallsOf('database')('capsule.provision', '200', 5);
  metrics.observeCallsOf('egress')('policy.put', '<error>', 5);
  metrics.watch({ health: () => ({}), verdicts: () => [], proofs: () => ['passed', 'failed', 'passed'] });
  const text = await registry.metrics();
  for (const line of [
    'space_operator_broker_call_seconds_count{broker="database",operation="capsule.provision",code="200"} 1',
    'space_operator_broker_call_seconds_count{broker="egress",operation="policy.put",code="<error>"} 1',
    'space_operator_sandbox_nodes{verdict="passed"} 2',
    'space_operator_sandbox_nodes{verdict="failed"} 1',
    // Nothing is a figure, too: an alert must end.
    'space_operator_sandbox_nodes{verdict="running"} 0',
  ]) {
    expect(text.split('\n')).toContain(line);
  }
});
