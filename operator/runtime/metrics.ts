import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Observe } from './client.ts';
import type { Outcome } from './controller.ts';
import type { Queue, QueueObserver } from './queue.ts';

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** The metrics of controller-runtime under its names, so that its dashboards and rules work. */
export function runtimeMetrics(registry: Registry) {
  const registers = [registry];
  return {
    ...controllerMetrics(registers),
    ...queueMetrics(registers),
    ...clientMetrics(registers),
    ...leadMetrics(registers),
  };
}

function controllerMetrics(registers: Registry[]) {
  const controller = ['controller'];
  const total = new Counter({
    name: 'controller_runtime_reconcile_total',
    help: 'Reconciles, by controller and result.',
    labelNames: ['controller', 'result'],
    registers,
  });
  const errors = new Counter({
    name: 'controller_runtime_reconcile_errors_total',
    help: 'Reconciles that failed and are retried.',
    labelNames: controller,
    registers,
  });
  const time = new Histogram({
    name: 'controller_runtime_reconcile_time_seconds',
    help: 'Duration of a reconcile, in seconds.',
    labelNames: controller,
    buckets: BUCKETS,
    registers,
  });
  const active = new Gauge({
    name: 'controller_runtime_active_workers',
    help: 'Workers that are reconciling.',
    labelNames: controller,
    registers,
  });
  const workers = new Gauge({
    name: 'controller_runtime_max_concurrent_reconciles',
    help: 'Workers of a controller, which is the most objects that it reconciles at a time.',
    labelNames: controller,
    registers,
  });
  return {
    controller(name: string, count: number) {
      workers.set({ controller: name }, count);
      return {
        onActive: (change: 1 | -1) => active.inc({ controller: name }, change),
        onOutcome(outcome: Outcome, tookMs: number) {
          total.inc({ controller: name, result: outcome });
          if (outcome === 'error') errors.inc({ controller: name });
          time.observe({ controller: name }, tookMs / 1000);
        },
      };
    },
  };
}

function queueMetrics(registers: Registry[]) {
  const adds = new Counter({
    name: 'workqueue_adds_total',
    help: 'Keys that became ready in the queue.',
    labelNames: ['name'],
    registers,
  });
  const retries = new Counter({
    name: 'workqueue_retries_total',
    help: 'Keys that were put back into the queue after a failure.',
    labelNames: ['name'],
    registers,
  });
  const waited = new Histogram({
    name: 'workqueue_queue_duration_seconds',
    help: 'Time for which a key was ready in the queue before a worker took it, in seconds.',
    labelNames: ['name'],
    buckets: BUCKETS,
    registers,
  });
  const worked = new Histogram({
    name: 'workqueue_work_duration_seconds',
    help: 'Time for which a worker processed a key, in seconds.',
    labelNames: ['name'],
    buckets: BUCKETS,
    registers,
  });
  return {
    queue(name: string): QueueObserver {
      return {
        added: () => adds.inc({ name }),
        taken: (_, ms) => waited.observe({ name }, ms / 1000),
        done: (_, ms) => worked.observe({ name }, ms / 1000),
        retried: () => retries.inc({ name }),
      };
    },
    /** Registers gauges that are read from the queues at each scrape. */
    watchQueues(queues: Readonly<Record<string, Queue>>) {
      new Gauge({
        name: 'workqueue_depth',
        help: 'Keys that are ready in the queue.',
        labelNames: ['name'],
        registers,
        collect() {
          for (const [name, queue] of Object.entries(queues)) this.set({ name }, queue.depth);
        },
      });
      new Gauge({
        name: 'workqueue_longest_running_processor_seconds',
        help: 'Longest time for which a key has been processed so far, in seconds.',
        labelNames: ['name'],
        registers,
        collect() {
          for (const [name, queue] of Object.entries(queues)) this.set({ name }, queue.longestRunMs / 1000);
        },
      });
    },
  };
}

function clientMetrics(registers: Registry[]) {
  const requests = new Counter({
    name: 'rest_client_requests_total',
    help: 'Requests to the API server, by method and status code.',
    labelNames: ['code', 'method'],
    registers,
  });
  const writes = new Counter({
    name: 'space_operator_writes_total',
    help: 'Writes to the API server, by verb and kind; this does not grow when nothing changes.',
    labelNames: ['verb', 'kind'],
    registers,
  });
  return {
    observeCall: ((method, code) => requests.inc({ code, method })) satisfies Observe,
    observeWrite: (verb: string, kind: string) => writes.inc({ verb, kind }),
  };
}

function leadMetrics(registers: Registry[]) {
  const leading = new Gauge({
    name: 'leader_election_master_status',
    help: '1 while this process holds the Lease, otherwise 0.',
    registers,
  });
  return { observeLead: (held: boolean) => leading.set(held ? 1 : 0) };
}

export type RuntimeMetrics = ReturnType<typeof runtimeMetrics>;
