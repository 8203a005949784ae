/** The program of the outside host: `outside-server.ts ADDRESS… -- PORT…`. Ends with its standard input. */
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { OutsideTls } from '../model.ts';

const separator = process.argv.indexOf('--');
const addresses = process.argv.slice(2, separator);
const ports = process.argv.slice(separator + 1).map(Number);
const tls = JSON.parse(process.env['SPACE_OUTSIDE_TLS'] ?? 'null') as OutsideTls | null;

/** Says back all that it was told, as a careless API would. */
const answer: RequestListener = (request, response) => {
  const { method, url, headers } = request;
  console.log(JSON.stringify({ method, url, headers }));
  response.end(`outside saw ${request.socket.remoteAddress} with ${JSON.stringify(headers)}\n`);
};

function listen(address: string, port: number): Promise<void> {
  const server = port === tls?.port ? createTlsServer(tls, answer) : createServer(answer);
  server.on('connection', (socket) => {
    socket.on('error', () => undefined);
    console.log(JSON.stringify({ from: socket.remoteAddress, to: address, port }));
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, resolve);
  });
}

await Promise.all(addresses.flatMap((address) => ports.map((port) => listen(address, port))));
console.log('listening');
process.stdin.resume().on('end', () => process.exit(0));
