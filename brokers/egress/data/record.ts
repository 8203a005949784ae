import type { Logger } from '@space/broker-kit';
import type { ProblemCode, TunnelFault } from '../core/problem.ts';
import type { EgressMetrics, Operation } from '../metrics.ts';
import type { Tenant } from '../policies/tenant.ts';

/** The one line that a request or tunnel leaves: never a path, a query, a header or a body. */
export interface Line {
  readonly traceId: string;
  readonly operation: Operation;
  readonly startedAt: number;
  tenant?: Tenant | undefined;
  host?: string | undefined;
  input?: string | undefined;
  /** Index of the route that fitted. */
  route?: number | undefined;
  method?: string | undefined;
  status?: number | undefined;
  upstreamStatus?: number | undefined;
  code: ProblemCode | TunnelFault | 'ok' | 'ended';
  error?: unknown;
  bytesOut: number;
  bytesIn: number;
}

export type RecordLine = (line: Line) => void;

export function recorder(log: Logger, metrics: EgressMetrics): RecordLine {
  return (line) => {
    const seconds = (performance.now() - line.startedAt) / 1000;
    metrics.finished.labels(line.operation, line.code).observe(seconds);
    const passed = metrics.bytes[line.operation];
    passed.out += line.bytesOut;
    passed.in += line.bytesIn;
    const fields = {
      trace_id: line.traceId,
      operation: line.operation,
      capsule: line.tenant?.capsule,
      app: line.tenant?.app,
      revision: line.tenant?.revision.slice(0, 16),
      host: line.host,
      input: line.input,
      route: line.route,
      method: line.method,
      status: line.status,
      upstream_status: line.upstreamStatus,
      code: line.code,
      bytes_out: line.bytesOut,
      bytes_in: line.bytesIn,
      ms: Math.round(seconds * 1000),
      ...(line.error === undefined ? {} : { err: line.error }),
    };
    log[line.code === 'internal' ? 'error' : 'info'](fields, 'egress');
  };
}
