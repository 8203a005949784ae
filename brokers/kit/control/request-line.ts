import type { ServerResponse } from 'node:http';
import type { ErrorCode } from '@space/contracts/errors';
import type { LineBudget } from '../line-budget.ts';
import type { Logger } from '../log.ts';
import type { ServiceMetrics } from '../metrics.ts';

/** What is reported when a request ends: one log line, and one observation of its duration. */
export class RequestLine {
  operation = 'none';
  quiet = false;
  /** Whether the target had a query. */
  query = false;
  code: ErrorCode | 'ok' = 'ok';
  /** Whether the caller proved who it is, and is within its rate. */
  admitted = false;
  /** The error, if it is the operators' to repair. */
  fault: unknown;
  /** Fields that the service adds; never a secret. */
  readonly notes: Record<string, unknown> = {};
  readonly traceId: string;
  readonly #startedAt = performance.now();

  constructor(traceId: string) {
    this.traceId = traceId;
  }

  record(
    response: ServerResponse,
    { log, metrics, strangers }: { log: Logger; metrics: ServiceMetrics; strangers: LineBudget },
  ): void {
    const seconds = (performance.now() - this.#startedAt) / 1000;
    const status = response.statusCode;
    metrics.requests.labels(this.operation, String(status), this.code).observe(seconds);
    const fields = {
      trace_id: this.traceId,
      operation: this.operation,
      status,
      code: this.code,
      ms: Math.round(seconds * 10_000) / 10,
      ...(response.writableFinished ? {} : { cut_short: true }),
      ...this.notes,
      ...(this.fault === undefined ? {} : { err: this.fault }),
    };
    const level = this.#level();
    const address = response.req.socket.remoteAddress;
    if (this.admitted) log[level](fields, 'request');
    else if (strangers.allows(level, { address }, 'request')) log[level]({ ...fields, address }, 'request');
  }

  #level(): 'error' | 'debug' | 'info' {
    if (this.fault !== undefined) return 'error';
    return this.quiet && this.code === 'ok' ? 'debug' : 'info';
  }
}
