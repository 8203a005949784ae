import type { Socket } from 'node:net';

/**
 * Node parses the rest of a segment though its socket is destroyed, and makes a response and an event of every few bytes.
 * There is no stopping it; this leaves out what comes after the parser, by properties that Node does not tell of.
 */
export function hearNoMore(socket: Socket & { readonly parser?: { onIncoming: unknown } | null }): void {
  if (socket.parser) socket.parser.onIncoming = () => 0;
}
