/** The outside host, behind TLS: small answers, endless ones, and one that repeats a letter. It ends when its input ends. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { portOf } from '../../brokers/kit/index.ts';

const [cert = '', key = ''] = process.argv.slice(2);
const MIB = 2 ** 20;
const rates = JSON.stringify({ rates: 'x'.repeat(1_012) });
const letters = Buffer.alloc(MIB, 'a');
const large = Buffer.alloc(MIB, 'x '.repeat(32));

const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
  const json = { 'content-type': 'application/json' };
  if (request.url === '/v1/letters') response.writeHead(200, json).end(letters);
  else if (request.url === '/v1/large') {
    response.writeHead(200, json);
    const more = () => {
      while (!response.destroyed && response.write(large));
    };
    response.on('drain', more);
    more();
  } else response.writeHead(200, json).end(rates);
});
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: portOf(server) })));
process.stdin.resume().on('end', () => process.exit(0));
