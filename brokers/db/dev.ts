/**
 * `npm run dev:db`: PostgreSQL as its image starts it, and the broker, on loopback. When both are ready, one JSON line on
 * standard output tells where; logs go to standard error. Ctrl-C stops both and leaves nothing.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger, newToken, stopSignal } from '@space/broker-kit';
import pino from 'pino';
import { type EmbeddedServer, startEmbeddedServer } from '../../testing/postgres/server.ts';
import { readConfig } from './config.ts';
import { type Service, startService } from './service.ts';

const stopped = stopSignal();
const log = createLogger({ service: 'db-broker', level: 'info', destination: pino.destination(2) });
const secrets = mkdtempSync(join(tmpdir(), 'space-dev-db-'));
let server: EmbeddedServer | undefined;
let broker: Service | undefined;

try {
  server = await startEmbeddedServer({ asInImage: true });
  const token = newToken('prv').reveal();
  const file = (name: string, text: string): string => {
    const path = join(secrets, name);
    writeFileSync(path, `${text}\n`, { mode: 0o600 });
    return path;
  };
  const config = readConfig({
    SPACE_NAME: 'dev',
    LISTEN_HOST: '127.0.0.1',
    LISTEN_PORT: process.env['LISTEN_PORT'] ?? '0',
    METRICS_PORT: process.env['METRICS_PORT'] ?? '0',
    ADMIN_DATABASE_URL_FILE: file('url', server.brokerUrl),
    PROVISIONER_TOKEN_FILE: file('token', token),
    DERIVATION_KEY_FILE: file('derivation', randomBytes(32).toString('base64url')),
    NAME_KEY_FILE: file('names', randomBytes(32).toString('base64url')),
    ISSUED_HOST: '127.0.0.1',
    ISSUED_PORT: String(server.port),
    LOG_LEVEL: process.env['LOG_LEVEL'],
  });
  log.level = config.LOG_LEVEL;
  const driverPath = join(import.meta.dirname, '../../manifests/driver/postgres.json');
  broker = await startService({ config, driverPath, log });
  const ready = {
    service: 'db-broker',
    url: `http://127.0.0.1:${broker.port}`,
    provisioner_token: token,
    admin_database_url: server.superuserUrl,
  };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
  await stopped;
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await broker?.stop();
  await server?.remove();
  rmSync(secrets, { recursive: true, force: true });
}
process.exit();
