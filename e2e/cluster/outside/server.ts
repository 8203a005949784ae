/** The program of the outside host: SPACE_OUTSIDE says what it serves. It ends with its standard input. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createInterface } from 'node:readline';
import type { OutsideOptions, OutsideTls } from '../model.ts';

interface Place {
  readonly address: string;
  readonly port: number;
}

export interface Serving {
  readonly tcp: readonly Place[];
  readonly udp: readonly Place[];
  readonly tls: OutsideTls | null;
  readonly answers: NonNullable<OutsideOptions['answers']>;
}

const { tcp, udp, tls, answers } = JSON.parse(process.env['SPACE_OUTSIDE'] ?? '') as Serving;

/** Echoes the request, as a careless API would, unless it has another answer. */
const answer: RequestListener = (request, response) => {
  const { method, url = '', headers } = request;
  console.log(JSON.stringify({ method, url, headers }));
  const known = answers[url.split('?')[0] ?? ''];
  if (known !== undefined && headers[known.header[0]] === known.header[1]) return response.end(known.body);
  return response.end(`outside saw ${request.socket.remoteAddress} with ${JSON.stringify(headers)}\n`);
};

async function listen({ address, port }: Place): Promise<void> {
  const server = port === tls?.port ? createTlsServer(tls, answer) : createServer(answer);
  server.on('connection', (socket) => {
    socket.on('error', () => undefined);
    console.log(JSON.stringify({ from: socket.remoteAddress, to: address, port }));
  });
  await once(server.listen(port, address), 'listening');
}

async function echo({ address, port }: Place): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('message', (bytes, from) => socket.send(bytes, from.port, from.address));
  await once(socket.bind(port, address), 'listening');
}

await Promise.all([...tcp.map(listen), ...udp.map(echo)]);
console.log('listening');
createInterface({ input: process.stdin })
  .on('line', (line) => console.log(line))
  .on('close', () => process.exit(0));
