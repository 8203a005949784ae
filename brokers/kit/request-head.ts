import type { IncomingMessage } from 'node:http';

/** Headers of which the parser silently keeps the first, while a proxy or a log may take the last. */
const ONCE: ReadonlySet<string> = new Set(['host', 'content-type']);

/** Why the head of a request is not to be believed, though the parser takes it. */
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
