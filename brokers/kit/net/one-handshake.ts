import type { TLSSocket } from 'node:tls';

/**
 * Calls `end` when the host of a connection of TLS 1.2 asks for another handshake. Refusing each time takes 90 µs for 33
 * bytes that are no data, so nothing else would end it. This uses an undocumented property of Node.
 */
export function onNextHandshake(socket: TLSSocket, end: () => void): void {
  const { _handle: handle } = socket as TLSSocket & {
    readonly _handle?: { onhandshakestart: unknown } | null;
  };
  if (handle) handle.onhandshakestart = end;
}
