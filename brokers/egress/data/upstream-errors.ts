import { Problem } from '../core/problem.ts';
import { NotSent } from './connections.ts';

const codeOf = (error: Error): string =>
  'code' in error && typeof error.code === 'string' ? error.code : '';

const LOST_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** Whether the connection failed, and not what the host sent on it. */
export const isConnectionLost = (error: Error): boolean => LOST_CODES.has(codeOf(error));

/** Converts undici's errors to a Problem; a Problem is returned unchanged. */
export function upstreamProblem(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Problem || error.name === 'DialError') return error;
  const code = codeOf(error);
  const transport =
    error instanceof NotSent ||
    code.startsWith('UND_ERR') ||
    code.startsWith('E') ||
    error.name === 'HTTPParserError';
  return transport ? new Problem('upstream_failed', { cause: error }) : error;
}
