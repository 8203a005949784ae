import { connect, type Socket } from 'node:net';

/** A connection on which a caller can send any bytes. */
export interface RawCaller {
  readonly socket: Socket;
  send(bytes: string | Buffer): void;
  /** What came back until the connection ended, or until `enough` of it is there. */
  received(enough?: (text: string) => boolean): Promise<string>;
}

export async function callRaw(base: string): Promise<RawCaller> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname);
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  let text = '';
  let ended = false;
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const look of waiting) look();
  };
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    wake();
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    ended = true;
    wake();
  });
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    received: (enough = () => false) =>
      new Promise((resolve) => {
        const look = () => {
          if (!ended && !enough(text)) return;
          waiting.delete(look);
          resolve(text);
        };
        waiting.add(look);
        look();
      }),
  };
}

/** One request, and the status and body of its answer; no status where there was none. */
export async function rawRequest(
  base: string,
  token: string,
  line: string,
  headers: readonly string[] = [],
  body = '',
  /** Whether the caller ends its side at once, so that a body that is too short is over. */
  { end = false } = {},
): Promise<{ readonly status: number; readonly text: string }> {
  const caller = await callRaw(base);
  const head = [
    `${line} HTTP/1.1`,
    'host: objects',
    `authorization: Bearer ${token}`,
    'connection: close',
    ...headers,
  ];
  caller.send(Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1'));
  if (end) caller.socket.end();
  const text = await caller.received();
  caller.socket.destroy();
  return { status: Number(text.slice(9, 12)), text: text.slice(text.indexOf('\r\n\r\n') + 4) };
}
