/**
 * The least that a program on Node does to serve objects of an S3 server: it signs each request anew and passes it on.
 * It knows no callers, prefixes, quotas or limits, and logs nothing. Ends with SIGTERM.
 */
import { createServer } from 'node:http';
import { Pool } from 'undici';
import { Secret } from '../../brokers/kit/index.ts';
import { createSigner, EMPTY_SHA256, UNSIGNED_PAYLOAD } from '../../brokers/objectstore/upstream/sigv4.ts';

const [port = '', origin = '', bucket = ''] = process.argv.slice(2);
const pool = new Pool(origin, { connections: 256 });
const sign = createSigner({
  origin,
  region: 'us-east-1',
  bucket,
  addressing: 'path',
  accessKeyId: new Secret(process.env['S3_ACCESS_KEY'] ?? ''),
  secretAccessKey: new Secret(process.env['S3_SECRET_KEY'] ?? ''),
});
const { host } = new URL(origin);

createServer((request, response) => {
  const method = request.method === 'PUT' ? 'PUT' : 'GET';
  const path = request.url ?? '/';
  const length = request.headers['content-length'];
  const headers = {
    ...sign(
      {
        method,
        path,
        query: [],
        headers: [['host', host]],
        payload: method === 'PUT' ? UNSIGNED_PAYLOAD : EMPTY_SHA256,
      },
      new Date(),
    ),
    ...(length === undefined ? {} : { 'content-length': length }),
  };
  pool
    .stream(
      { path, method, headers, body: method === 'PUT' ? request : null },
      ({ statusCode, headers: got }) =>
        response.writeHead(statusCode, {
          'content-type': String(got['content-type']),
          'content-length': Number(got['content-length'] ?? 0),
        }),
    )
    .catch(() => response.destroy());
}).listen(Number(port), '127.0.0.1');

// Not left to the signal: it would write no profile.
process.once('SIGTERM', () => process.exit(0));
