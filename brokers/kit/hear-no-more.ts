import type { Socket } from 'node:net';

/**
 * Stops events for requests on a destroyed socket. Node continues to parse the rest of a segment, and creates a request
 * and a response for every few bytes; this disables what follows the parser, by undocumented properties of Node.
 */
export function hearNoMore(socket: Socket & { readonly parser?: { onIncoming: unknown } | null }): void {
  if (socket.parser) socket.parser.onIncoming = () => 0;
}
