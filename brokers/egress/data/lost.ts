import { Problem } from '../core/problem.ts';
import { NotSent } from './connections.ts';

const codeOf = (error: Error): string =>
  'code' in error && typeof error.code === 'string' ? error.code : '';

const LOST = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** Whether the connection is what was lost, and not what was said on it. */
export const isLost = (error: Error): boolean => LOST.has(codeOf(error));

/** undici's failures in our words; those of ours pass through it unchanged. */
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
