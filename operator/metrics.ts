import { Gauge, Histogram, type Registry } from 'prom-client';
import type { Finding } from './conditions.ts';
import type { Operator } from './operator.ts';

/** The operator's metrics, beside those of its runtime. */
export function operatorMetrics(registry: Registry) {
  const registers = [registry];
  const calls = new Histogram({
    name: 'space_operator_broker_call_seconds',
    help: 'Duration of calls to the brokers and the gateway, by operation and status code (<error>: no answer), in seconds.',
    labelNames: ['broker', 'operation', 'code'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60],
    registers,
  });
  const gate = new Gauge({
    name: 'space_operator_sandbox_open',
    help: '1 while tenant code may be scheduled, otherwise 0, by reason.',
    labelNames: ['reason'],
    registers,
  });
  return {
    /** Returns an observer of the calls to one broker, or to the gateway's replicas. */
    observeCallsOf(broker: 'database' | 'objectstore' | 'egress') {
      return (operation: string, code: string, tookMs: number): void =>
        calls.observe({ broker, operation, code }, tookMs / 1000);
    },
    observeGate({ status, reason }: Finding): void {
      gate.reset();
      gate.set({ reason }, status === 'True' ? 1 : 0);
    },
    /** Registers gauges that are read from a running operator at each scrape. */
    watch: (operator: Watched) => watchOperator(registers, operator),
  };
}

type Watched = Pick<Operator, 'health' | 'verdicts' | 'proofs' | 'walls' | 'opened'>;

function watchOperator(registers: Registry[], { health, verdicts, proofs, walls, opened }: Watched): void {
  new Gauge({
    name: 'space_operator_objects',
    help: 'Capsules and Assistants, by status and reason of their condition Ready.',
    labelNames: ['kind', 'ready', 'reason'],
    registers,
    collect() {
      this.reset();
      for (const verdict of verdicts()) this.inc({ ...verdict });
    },
  });
  countNodes(registers, proofs, {
    name: 'space_operator_sandbox_nodes',
    help: 'Nodes that the RuntimeClass can schedule a pod on, by the result of their sandbox probe.',
  });
  countNodes(registers, walls, {
    name: 'space_operator_network_nodes',
    help: 'Nodes that the RuntimeClass can schedule a pod on, by the result of their network probe.',
  });
  new Gauge({
    name: 'space_operator_open_objects',
    help: 'Objects that others than the operator may change because of the annotation platform.space/open.',
    labelNames: ['kind'],
    registers,
    collect() {
      for (const kind of ['Namespace', 'Capsule', 'Assistant']) this.set({ kind }, 0);
      for (const kind of opened()) this.inc({ kind });
    },
  });
  new Gauge({
    name: 'space_operator_watch_current',
    help: '1 while the watch of a kind is up to date with the API server, otherwise 0.',
    labelNames: ['kind'],
    registers,
    collect() {
      for (const [kind, state] of Object.entries(health())) this.set({ kind }, state === 'current' ? 1 : 0);
    },
  });
}

function countNodes(
  registers: Registry[],
  verdicts: Watched['proofs'] | Watched['walls'],
  about: { readonly name: string; readonly help: string },
): void {
  new Gauge({
    ...about,
    labelNames: ['verdict'],
    registers,
    collect() {
      for (const verdict of ['untried', 'running', 'passed', 'failed']) this.set({ verdict }, 0);
      for (const verdict of verdicts()) this.inc({ verdict });
    },
  });
}
