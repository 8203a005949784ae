import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Authority, makeAuthority } from '../../../testing/certificates.ts';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { readConfig } from '../config.ts';
import { BUCKET, type Mounts, mountFiles } from '../testing/broker.ts';
import { S3Error } from './errors.ts';
import { type ManagedStore, openManagedStore } from './managed.ts';

let directory: string;
let file: { readonly ca: string; readonly cert: string; readonly key: string };
let server: S3Server;
let mounts: Mounts;
let store: ManagedStore;
let former: Authority;
let next: Authority;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-authority-'));
  const at = (name: string) => join(directory, name);
  file = { ca: at('ca.crt'), cert: at('served.crt'), key: at('served.key') };
  former = makeAuthority(directory, 'former');
  next = makeAuthority(directory, 'next');
  serve(former);
  trust(former);
  server = await startS3Server({ tls: file });
  server.makeBucket(BUCKET);
  mounts = mountFiles('postgresql://nobody@127.0.0.1/none', server);
  store = await openManagedStore(
    readConfig({ ...mounts.environment, S3_CA_FILE: file.ca }),
    createLogger({ service: 'test', level: 'silent' }),
  );
});
afterAll(async () => {
  await store?.close();
  await server?.remove();
  mounts?.remove();
  rmSync(directory, { recursive: true });
});

/** What the server shows once it starts again. */
function serve(authority: Authority): void {
  const { cert, key } = authority.sign('s3', ['IP:127.0.0.1']);
  copyFileSync(cert, file.cert);
  copyFileSync(key, file.key);
}

const trust = (authority: Authority) => copyFileSync(authority.cert, file.ca);

/** Every connection is another one from then on. */
async function restart(): Promise<void> {
  await server.kill();
  await server.start();
}

/** One request through each of the pools. */
const ask = () =>
  Promise.all([store.s3, store.custody, store.upkeep].map((s3) => s3.put('known', Buffer.from('x'))));

it('reaches the S3 server after its CA was exchanged, and no longer trusts the former one', async () => {
  await ask();
  trust(next);
  serve(next);
  await store.refresh();
  await restart();
  await ask();

  serve(former);
  await restart();
  const refused = await ask().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(S3Error);
  expect((refused as S3Error).kind).toBe('tls');
});

it('keeps its CA while the file contains no certificate', async () => {
  trust(next);
  serve(next);
  await restart();
  await store.refresh();
  await ask();
  for (const text of ['', 'no certificate']) {
    writeFileSync(file.ca, text);
    await store.refresh();
    await restart();
    await ask();
  }
});

it('does not start with a file without a certificate', async () => {
  writeFileSync(file.ca, 'no certificate');
  const config = readConfig({ ...mounts.environment, S3_CA_FILE: file.ca });
  const opened = openManagedStore(config, createLogger({ service: 'test', level: 'silent' }));
  await expect(opened).rejects.toThrow(/PEM|certificate/i);
});
