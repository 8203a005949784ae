import { LineBudget, type Logger } from '@space/broker-kit';
import type { Ending } from '@space/contracts/egress';
import type { EgressMetrics, Operation } from '../metrics.ts';
import type { LiveInput, Tenant } from '../policies/tenant.ts';
import type { Calls } from './calls.ts';

/** The log line of one request or tunnel. It never contains a path, a query, a header or a body. */
export interface Line {
  readonly traceId: string;
  readonly operation: Operation;
  readonly startedAt: number;
  tenant?: Tenant | undefined;
  /** The host of a tunnel. */
  host?: string | undefined;
  /** The host of a tunnel that the policy does not permit. It is a text of the Assistant, so it is never logged. */
  refusedHost?: string | undefined;
  input?: LiveInput | undefined;
  /** The index of the route that matched. */
  route?: number | undefined;
  method?: string | undefined;
  status?: number | undefined;
  upstreamStatus?: number | undefined;
  code: Ending;
  /** Whether the value was in the answer. */
  reflected?: boolean;
  error?: unknown;
  bytesOut: number;
  bytesIn: number;
}

export type RecordLine = (line: Line) => void;

export function recorder(log: Logger, metrics: EgressMetrics, calls: Calls): RecordLine {
  const lines = new LineBudget(log);
  /** A child logger for each input, so that the fields which all of its lines share are serialised once. */
  const inputLoggers = new WeakMap<LiveInput, Logger>();
  const loggerAbout = (input: LiveInput, line: Line): Logger => {
    const known = inputLoggers.get(input) ?? log.child(about(line));
    inputLoggers.set(input, known);
    return known;
  };
  return (line) => {
    calls.count(line);
    const seconds = (performance.now() - line.startedAt) / 1000;
    metrics.finished.labels(line.operation, line.code).observe(seconds);
    const passed = metrics.bytes[line.operation];
    passed.out += line.bytesOut;
    passed.in += line.bytesIn;
    const level = line.code === 'internal' ? 'error' : 'info';
    const who = { capsule: line.tenant?.capsule, app: line.tenant?.app, input: line.input?.key };
    if (!lines.allows(level, who, 'egress')) return;
    if (line.input === undefined) log[level]({ ...about(line), ...happened(line, seconds) }, 'egress');
    else loggerAbout(line.input, line)[level](happened(line, seconds), 'egress');
  };
}

const about = ({ operation, tenant, host, input }: Line) => ({
  operation,
  capsule: tenant?.capsule,
  app: tenant?.app,
  revision: tenant?.revision.slice(0, 16),
  host: input?.host ?? host,
  input: input?.key,
});

const happened = (line: Line, seconds: number) => ({
  trace_id: line.traceId,
  route: line.route,
  method: line.method,
  status: line.status,
  upstream_status: line.upstreamStatus,
  code: line.code,
  reflected: line.reflected,
  bytes_out: line.bytesOut,
  bytes_in: line.bytesIn,
  ms: Math.round(seconds * 1000),
  err: line.error,
});
