import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger, portOf } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { openTcpProxy } from '../../testing/tcp-proxy.ts';
import { readConfig } from './config.ts';
import { startService } from './service.ts';
import { DRIVER_DIRECTORY } from './testing/broker.ts';
import { type Fixture, openFixture } from './testing/fixture.ts';

let fixture: Fixture;
let directory: string;
beforeAll(async () => {
  fixture = await openFixture();
  directory = mkdtempSync(join(tmpdir(), 'space-driver-'));
});
afterAll(async () => {
  rmSync(directory, { recursive: true });
  await fixture.close();
});

/** Starts a broker whose document was edited, and says why it did not start. Its files of tokens do not exist. */
async function refusalOf(file: string, edit: (text: string) => string): Promise<string> {
  cpSync(DRIVER_DIRECTORY, directory, { recursive: true });
  const path = join(directory, file);
  writeFileSync(path, edit(readFileSync(path, 'utf8')));
  const nowhere = join(directory, 'nowhere');
  const environment = {
    ...fixture.mounts.environment,
    PROVISIONER_TOKEN_FILE: nowhere,
    NAME_KEY_FILE: nowhere,
  };
  const log = createLogger({ service: 'test', level: 'silent' });
  const started = startService({ config: readConfig(environment), driverDirectory: directory, log });
  return started.then(
    () => 'started',
    (error: unknown) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error)),
  );
}

describe('before a listener or a token exists, a broker refuses', () => {
  it.each<[string, string, (text: string) => string, RegExp]>([
    [
      'a malformed document',
      'objectstore.json',
      (text) => text.slice(0, -3),
      /driver document cannot be read/,
    ],
    [
      'a key that is there twice',
      'objectstore.json',
      (text) => text.replace('"spec": 1', '"spec": 1, "spec": 1'),
      /driver document cannot be read/,
    ],
    [
      'an incomplete one',
      'objectstore.json',
      (text) => text.replace(/ *"data_plane".*\n/, ''),
      /\/data_plane/,
    ],
    [
      'an unknown property',
      'objectstore.json',
      (text) => text.replace('"spec"', '"extra": 1, "spec"'),
      /Unrecognized key: "extra"/,
    ],
    [
      'a Capsule-scoped service',
      'objectstore.json',
      (text) => text.replace('"scope": "space"', '"scope": "capsule"'),
      /\/scope: must be space/,
    ],
    [
      'required keys of Capsules’ own',
      'objectstore.json',
      (text) => text.replace('managed-or-byok', 'byok'),
      /\/credential_policy: .*never required/,
    ],
    [
      'an operation that is not served',
      'objectstore.json',
      (text) => text.replace('/v1/capsules/finalize', '/v1/capsules/finish'),
      /does not describe the operations that are served/,
    ],
    [
      'a form with a format that it does not know',
      'objectstore-credentials.json',
      (text) => text.replace('s3-region', 's3-session'),
      /credential form is refused: .*not a format of v1/,
    ],
  ])('%s, and says so', async (_, file, edit, reason) => {
    expect(await refusalOf(file, edit)).toMatch(reason);
  });

  it('and reads its keys only afterwards', async () => {
    expect(await refusalOf('objectstore.json', (text) => text)).toMatch(/ENOENT/);
  });
});

describe('the health check', () => {
  const health = async (ports: Record<string, string>): Promise<number> => {
    const program = join(import.meta.dirname, 'health.ts');
    const env = { PATH: process.env['PATH'], ...ports };
    const child = spawn(process.execPath, [program], { env, stdio: 'ignore' });
    const [code] = await once(child, 'exit');
    return code as number;
  };
  /** It gives each answer some seconds, in which a busy machine may stand still. */
  const healthy = (ports: Record<string, string>) =>
    eventually(async () => (await health(ports)) === 0, { what: 'it passes' });

  it('passes only if both listeners refuse', async () => {
    const { port, dataPort, metricsPort } = fixture.broker;
    const open: Server = createServer((_, response) => response.end('{}'));
    await new Promise<void>((resolve) => open.listen(0, '127.0.0.1', resolve));
    const lax = String(portOf(open));
    const [control, data] = [String(port), String(dataPort)];
    await healthy({ LISTEN_PORT: control, DATA_PORT: data });
    expect(await health({ LISTEN_PORT: lax, DATA_PORT: data })).toBe(1);
    expect(await health({ LISTEN_PORT: control, DATA_PORT: lax })).toBe(1);
    expect(await health({ LISTEN_PORT: String(metricsPort), DATA_PORT: data })).toBe(1);
    open.close();
  });

  it('fails while the registry is unavailable, and does not access the bucket', async () => {
    const line = await openTcpProxy(fixture.server);
    const url = new URL(fixture.server.objectStoreUrl);
    url.port = String(line.port);
    const environment = { REGISTRY_DATABASE_URL_FILE: fixture.mounts.write('line-url', url.href) };
    const replica = await fixture.replica({ environment });
    const ports = { LISTEN_PORT: String(replica.port), DATA_PORT: String(replica.dataPort) };
    line.lead(1);
    expect(await health(ports)).toBe(1);
    line.lead(fixture.server.port);
    await healthy(ports);
    await fixture.s3.kill();
    await healthy(ports);
    await replica.stop();
    await line.close();
  });
});
