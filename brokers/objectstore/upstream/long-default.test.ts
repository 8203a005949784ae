import { readFile } from 'node:fs/promises';
import { createLogger } from '@space/broker-kit';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { readConfig } from '../config.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import { BUCKET, type Mounts, mountFiles } from '../testing/broker.ts';
import { type ManagedStore, openManagedStore } from './managed.ts';

/** How long a copy or a completion may take by default. */

const TEN_MINUTES = 10 * 60_000;

let server: S3Server;
let between: Between;
let mounts: Mounts;
let store: ManagedStore;
beforeAll(async () => {
  server = await startS3Server();
  server.makeBucket(BUCKET);
  between = await startBetween(server);
  mounts = mountFiles('postgresql://nobody@127.0.0.1/none', { ...server, endpoint: between.endpoint });
  const log = createLogger({ service: 'test', level: 'silent' });
  store = await openManagedStore(readConfig(mounts.environment), log);
});
afterAll(async () => {
  vi.useRealTimers();
  await store?.close();
  mounts?.remove();
  await between?.close();
  await server?.remove();
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a copy may take a server ten minutes, and no longer', async () => {
  await store.s3.put('from', Buffer.from('x'));
  let reached = 0;
  let answer: () => void = () => undefined;
  between.fate = async ({ headers }): Promise<Fate> => {
    if (headers['x-amz-copy-source'] === undefined) return 'pass';
    reached += 1;
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return 'pass';
  };
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  /** Copies, and lets so much time go by once the server is at it. */
  const copy = async (to: string, ms: number) => {
    const before = reached;
    const copied = store.s3.copy('from', to).then(
      () => 'copied',
      (error: unknown) => String((error as { kind?: unknown }).kind),
    );
    while (reached === before) await turn();
    await vi.advanceTimersByTimeAsync(ms);
    answer();
    return copied;
  };
  expect(await copy('soon', TEN_MINUTES - 1_000)).toBe('copied');
  expect(await copy('late', TEN_MINUTES)).toBe('timeout');
});

test('the chart has the same default', async () => {
  const values = parse(await readFile(new URL('../../../charts/space/values.yaml', import.meta.url), 'utf8'));
  expect(readConfig(mounts.environment).S3_LONG_SECONDS * 1_000).toBe(TEN_MINUTES);
  expect(values.objectStore.longSeconds * 1_000).toBe(TEN_MINUTES);
});
