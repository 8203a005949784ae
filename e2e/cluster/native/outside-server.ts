/** The program of the outside host: `outside-server.ts ADDRESS… -- PORT…`. Ends with its standard input. */
import { createServer } from 'node:http';

const separator = process.argv.indexOf('--');
const addresses = process.argv.slice(2, separator);
const ports = process.argv.slice(separator + 1).map(Number);

function listen(address: string, port: number): Promise<void> {
  const server = createServer((request, response) => {
    response.end(`outside saw ${request.socket.remoteAddress}\n`);
  });
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
