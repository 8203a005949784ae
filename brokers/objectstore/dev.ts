/**
 * `npm run dev:objectstore`: an embedded PostgreSQL, an S3 server and the broker on loopback. When all are ready, one
 * JSON line on standard output tells where; logs go to standard error. Ctrl-C stops them and leaves nothing.
 *
 * `byok_fields` are values for the credential form that verify: a second bucket of the same S3 server, over TLS, by a
 * name that this broker alone resolves.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { createLogger, portOf, stopSignal } from '@space/broker-kit';
import type { Fields } from '@space/contracts/objectstore';
import pino from 'pino';
import { makeAuthority } from '../../testing/certificates.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../testing/postgres/server.ts';
import { type S3Server, startS3Server } from '../../testing/s3.ts';
import { readConfig } from './config.ts';
import { type Service, startService } from './service.ts';
import { BUCKET, DRIVER_DIRECTORY, type Mounts, mountFiles } from './testing/broker.ts';

const BYOK_BUCKET = 'byok';
const BYOK_HOST = 's3.byok.example';

/** Accepts TLS for the S3 server, which itself uses plain HTTP on this machine. */
async function startTlsFront(s3: S3Server, tls: { cert: string; key: string }): Promise<Server> {
  const { hostname, port } = new URL(s3.endpoint);
  const front = createServer({ cert: readFileSync(tls.cert), key: readFileSync(tls.key) }, (socket) => {
    const upstream = connect(Number(port), hostname);
    socket.on('error', () => upstream.destroy()).pipe(upstream);
    upstream.on('error', () => socket.destroy()).pipe(socket);
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  return front;
}

const stopped = stopSignal();
const log = createLogger({ service: 'objectstore-broker', level: 'info', destination: pino.destination(2) });
const directory = mkdtempSync(join(tmpdir(), 'space-dev-objectstore-'));
let server: EmbeddedServer | undefined;
let s3: S3Server | undefined;
let front: Server | undefined;
let mounts: Mounts | undefined;
let broker: Service | undefined;

try {
  server = await startEmbeddedServer();
  s3 = await startS3Server();
  s3.makeBucket(BUCKET);
  s3.makeBucket(BYOK_BUCKET);
  const authority = makeAuthority(directory, 'byok-authority');
  front = await startTlsFront(s3, authority.sign('byok', [`DNS:${BYOK_HOST}`]));
  mounts = mountFiles(server.objectStoreUrl, s3, 'dev');
  const { LISTEN_PORT = '0', DATA_PORT = '0', METRICS_PORT = '0', LOG_LEVEL = '' } = process.env;
  const config = readConfig({
    ...mounts.environment,
    ...{ LISTEN_PORT, DATA_PORT, METRICS_PORT, LOG_LEVEL },
    BYOK_CA_FILE: authority.cert,
    BYOK_FIXED_HOSTS: `${BYOK_HOST}=127.0.0.1`,
  });
  log.level = config.LOG_LEVEL;
  broker = await startService({ config, driverDirectory: DRIVER_DIRECTORY, log });
  const fields: Fields = {
    endpoint: `https://${BYOK_HOST}:${portOf(front)}`,
    region: s3.region,
    bucket: BYOK_BUCKET,
    addressing: 'path',
    'access-key-id': s3.accessKeyId,
    'secret-access-key': s3.secretAccessKey,
  };
  const ready = {
    service: 'objectstore-broker',
    url: `http://127.0.0.1:${broker.port}`,
    data_url: `http://127.0.0.1:${broker.dataPort}`,
    provisioner_token: mounts.provisioner,
    byok_fields: fields,
    s3: {
      endpoint: s3.endpoint,
      bucket: BUCKET,
      access_key_id: s3.accessKeyId,
      secret_access_key: s3.secretAccessKey,
    },
    admin_database_url: server.superuserUrl,
  };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
  await stopped;
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await broker?.stop();
  front?.close();
  await Promise.all([server?.remove(), s3?.remove()]);
  mounts?.remove();
  rmSync(directory, { recursive: true, force: true });
}
process.exit();
