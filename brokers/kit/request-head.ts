import type { IncomingMessage } from 'node:http';

/** Headers of which the parser keeps only the first, while a proxy or a log may use the last. */
const ONCE: ReadonlySet<string> = new Set(['host', 'content-type']);

/** Why the headers of a request are refused though the parser accepts them; undefined if they are not. */
export function headProblem({ httpVersion, rawHeaders }: IncomingMessage): string | undefined {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'http version';
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase() ?? '';
    if (!ONCE.has(name)) continue;
    if (seen.has(name)) return `two headers ${name}`;
    seen.add(name);
  }
  return undefined;
}

export function announcesBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
