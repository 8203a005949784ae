import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  createReadStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { digestOf, newToken, Secret } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../../testing/eventually.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../../testing/postgres/server.ts';
import { type S3Server, startS3Server } from '../../../../testing/s3.ts';
import { intoDatabase, query } from '../../../db/testing/postgres.ts';
import { assistant } from '../../testing/assistant.ts';
import { BUCKET, client, type Mounts, mountFiles } from '../../testing/broker.ts';
import { claimsFor, type Issuer, newIssuer } from '../grants/testing/issuer.ts';
import { credentialsOf, type OwnStore, startOwnStore } from './testing/byok.ts';

/** Every submitted value is searched wherever text is kept, including the memory of the process. */

let [server, s3, store]: [EmbeddedServer?, S3Server?, OwnStore?] = [];
let mounts: Mounts;
let broker: ChildProcess | undefined;
const directory = mkdtempSync(join(tmpdir(), 'space-heap-'));

beforeAll(async () => {
  const settings = { log_statement: 'all', log_parameter_max_length: '-1', log_min_messages: 'debug1' };
  [server, s3, store] = await Promise.all([
    startEmbeddedServer({ durable: false, settings, logsSessions: true }),
    startS3Server(),
    startOwnStore(),
  ]);
  s3.makeBucket(BUCKET);
  mounts = mountFiles(server.objectStoreUrl, s3);
});
afterAll(async () => {
  broker?.kill('SIGKILL');
  await Promise.all([server?.remove(), s3?.remove(), store?.remove()]);
  mounts.remove();
  rmSync(directory, { recursive: true });
});

type Ports = Readonly<Record<'port' | 'dataPort' | 'metricsPort', number>>;

async function start(output: string[], issuer: Issuer): Promise<Ports> {
  const main = join(import.meta.dirname, '../../main.ts');
  const environment = {
    ...mounts.environment,
    ...store?.environment,
    LOG_LEVEL: 'trace',
    SPACE_NAME: 'control-word',
    DATA_PLANE_BYOK: 'true',
    GRANT_KEYS_FILE: mounts.write('grant-keys', issuer.keySet()),
  };
  const flags = [
    '--heapsnapshot-signal=SIGUSR2',
    `--diagnostic-dir=${directory}`,
    '--max-old-space-size=256',
  ];
  const child = spawn(process.execPath, [...flags, main], {
    env: { PATH: process.env['PATH'], ...environment, METRICS_PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  broker = child;
  const ports = Promise.withResolvers<Ports>();
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      output.push(line);
      if (line.includes('"msg":"listening"')) ports.resolve(JSON.parse(line));
    });
  once(child, 'exit').then(() =>
    ports.reject(new Error(`the broker ended: ${output.join('\n').slice(-2_000)}`)),
  );
  return ports.promise;
}

/** The whole heap after a collection, as text. */
async function heapSnapshot(url: string): Promise<string> {
  broker?.kill('SIGUSR2');
  const files = () => readdirSync(directory).filter((name) => name.endsWith('.heapsnapshot'));
  await eventually(() => files().length === 1, { what: 'the heap snapshot' });
  const path = join(directory, files()[0] ?? '');
  // The process answers again only when it has written everything.
  await fetch(`${url}/healthz`);
  await eventually(() => existsSync(path) && statSync(path).size > 1_000_000, {
    what: 'the heap snapshot to be whole',
  });
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(path)) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('latin1');
}

it('no submitted value is found in any log, answer, metric, row or object, nor in the heap after a collection', async () => {
  if (server === undefined || store === undefined || s3 === undefined) throw new Error('no fixture');
  const output: string[] = [];
  const issuer = newIssuer();
  const { port, dataPort, metricsPort } = await start(output, issuer);
  const url = `http://127.0.0.1:${port}`;
  const principal = newToken('osp').reveal();
  await client(url, mounts.provisioner).provision('canary', principal);
  const own = credentialsOf(client(url, principal), 'canary');
  const good = store.fields();
  const canary = (name: string) => `canary-${name}-${Math.random().toString(36).slice(2)}`;
  const wrong = {
    id: canary('id'),
    secret: canary('secret'),
    malformed: canary('malformed'),
    field: canary('field'),
  };
  const replies = [];
  replies.push(await own.create('one', good, 0));
  const { set_id } = replies[0]!.json;
  replies.push(await own.rotate(set_id, good, 1), await own.select(set_id, 2), await own.list());
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  const bad = { 'access-key-id': wrong.id, 'secret-access-key': wrong.secret };
  replies.push(
    await own.create('two', { ...good, ...bad }, 3),
    await own.rotate(set_id, { ...good, ...bad }, 2),
  );
  replies.push(await own.create('two', { ...good, ...bad }, 0));
  replies.push(await own.create('two', { ...good, 'secret-access-key': `${wrong.malformed} ` }, 3));
  replies.push(await own.create(wrong.field, { ...good, ...bad, [wrong.field]: 'x' }, 3));
  const statuses = replies.slice(4).map(({ status }) => status);
  expect(statuses).toEqual([422, 422, 409, 400, 400]);
  // The data plane uses what is selected, well and badly.
  const token = newToken('osw').reveal();
  await client(url, principal).create('canary', 'app', token);
  const cnf = digestOf(new Secret(token)).toString('base64url');
  const claims = { space: 'control-word', capsule: 'canary', app: 'app', cnf, ref: set_id, gen: 2 };
  const grant = await issuer.sign(claimsFor(claims));
  const headers = { 'platform-grant': grant };
  const objects = assistant(`http://127.0.0.1:${dataPort}`, token);
  const used = [
    await objects.put('object', 'text', headers),
    await objects.get('object', headers),
    await objects.call('GET', '/v1/objects/data', { headers }),
    await objects.get('missing', headers),
    await objects.put('object', 'text', { ...headers, 'if-match': '"other"' }),
    await objects.get('object'),
    await objects.get('object', { 'platform-grant': await issuer.sign(claimsFor({ ...claims, gen: 1 })) }),
  ];
  expect(used.map(({ status }) => status)).toEqual([200, 200, 200, 404, 412, 409, 409]);
  const away = join(store.server.directory, good.bucket);
  renameSync(away, `${away}-away`);
  used.push(await objects.get('object', headers), await objects.put('object', 'text', headers));
  expect(used.slice(-2).map(({ status }) => status)).toEqual([502, 502]);

  // Another caller's request follows, as usual, since the engine keeps the last text that a pattern has matched.
  for (let i = 0; i < 20; i += 1) await own.list();

  const registryUrl = intoDatabase(server.superuserUrl, 'space_objectstore');
  const tables = await query<{ name: string }>(
    registryUrl,
    "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = 'broker'",
  );
  const rows: string[] = [];
  for (const { name } of tables)
    rows.push(JSON.stringify(await query(registryUrl, `SELECT t::text FROM ${name} t`)));
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const stored = readdirSync(join(s3.directory, BUCKET), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'));
  const places: Record<string, string> = {
    answers: [...replies, ...used].map(({ text }) => text).join('\n'),
    log: output.join('\n'),
    rows: rows.join('\n'),
    'the log of the database server': readFileSync(server.logPath, 'latin1'),
    metrics,
    objects: stored.join('\n'),
    heap: await heapSnapshot(url),
  };
  expect(places['rows']).toContain(set_id);
  expect(places['objects']).toContain('"revision"');
  expect(places['heap']).toContain('control-word');
  const secrets = { ...wrong, 'good id': good['access-key-id'], 'good secret': good['secret-access-key'] };
  for (const [place, text] of Object.entries(places))
    for (const [what, secret] of Object.entries(secrets))
      for (const spelt of [
        secret,
        Buffer.from(secret).toString('base64').replace(/=+$/, ''),
        Buffer.from(secret).toString('hex'),
      ])
        expect(text.includes(spelt), `${what} in ${place}`).toBe(false);
});
