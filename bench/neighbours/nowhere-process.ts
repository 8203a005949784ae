/** A server that answers every connection at its first bytes, and ends it after a second without any. It ends when its input ends. */
import { createServer } from 'node:net';
import { portOf } from '../../brokers/kit/index.ts';

const NOTHING = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n';

const server = createServer((socket) => {
  socket.on('error', () => undefined);
  socket.setTimeout(1_000, () => socket.destroy());
  socket.once('data', () => socket.end(NOTHING));
  socket.resume();
});
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: portOf(server) })));
process.stdin.resume().on('end', () => process.exit(0));
