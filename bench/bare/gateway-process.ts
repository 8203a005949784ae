/**
 * The least that a program on Node does to put a fixed header into requests to one TLS server, and to open tunnels to
 * it. It knows no callers, routes or limits, seals and scrubs nothing, and logs nothing. Ends with SIGTERM.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { Pool } from 'undici';

const [port = '', upstreamPort = '', authority = '', host = '', value = ''] = process.argv.slice(2);
const pool = new Pool(`https://127.0.0.1:${upstreamPort}`, {
  connections: 32,
  connect: { ca: readFileSync(authority), servername: host },
});

createServer((request, response) => {
  pool
    .stream(
      { path: request.url ?? '/', method: 'GET', headers: { host, 'x-api-key': value } },
      ({ statusCode, headers }) =>
        response.writeHead(statusCode, {
          'content-type': String(headers['content-type']),
          'content-length': Number(headers['content-length'] ?? 0),
        }),
    )
    .catch(() => response.destroy());
})
  .on('connect', (_, caller, head) => {
    const socket = connect(Number(upstreamPort), '127.0.0.1', () => {
      caller.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.write(head);
      socket.pipe(caller).pipe(socket);
    });
    socket.on('error', () => caller.destroy());
    caller.on('error', () => socket.destroy());
  })
  .listen(Number(port), '127.0.0.1');

// Not left to the signal: it would write no profile.
process.once('SIGTERM', () => process.exit(0));
