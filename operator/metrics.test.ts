import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { operatorMetrics } from './metrics.ts';

test('counts calls by service, nodes by the results of their probes, and opened objects', async () => {
  const registry = new Registry();
  const metrics = operatorMetrics(registry);
  metrics.observeCallsOf('database')('capsule.provision', '200', 5);
  metrics.observeCallsOf('egress')('policy.put', '<error>', 5);
  metrics.watch({
    health: () => ({}),
    verdicts: () => [],
    proofs: () => ['passed', 'failed', 'passed'],
    walls: () => ['failed'],
    opened: () => ['Namespace', 'Namespace'],
  });
  const text = await registry.metrics();
  for (const line of [
    'space_operator_broker_call_seconds_count{broker="database",operation="capsule.provision",code="200"} 1',
    'space_operator_broker_call_seconds_count{broker="egress",operation="policy.put",code="<error>"} 1',
    'space_operator_sandbox_nodes{verdict="passed"} 2',
    'space_operator_sandbox_nodes{verdict="failed"} 1',
    'space_operator_network_nodes{verdict="failed"} 1',
    // Nothing is a figure, too: an alert must end.
    'space_operator_sandbox_nodes{verdict="running"} 0',
    'space_operator_open_objects{kind="Namespace"} 2',
    'space_operator_open_objects{kind="Assistant"} 0',
  ]) {
    expect(text.split('\n')).toContain(line);
  }
});
