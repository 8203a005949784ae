import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createLogger } from '@space/broker-kit';
import { expect, it, onTestFinished } from 'vitest';
import { startS3Server } from '../../../testing/s3.ts';
import { openManagedStore } from './managed.ts';

/** A server that waits a while before each write, as one does whose writers of one key ask for its lock once a second. */
async function startSlowly(endpoint: string, writeMs: number): Promise<string> {
  const to = new URL(endpoint);
  const front = createServer(async (asked, answer) => {
    if (asked.method === 'PUT') await pause(writeMs);
    const { method, url: path, headers } = asked;
    const passed = request({ host: to.hostname, port: to.port, method, path, headers }, (answered) => {
      answer.writeHead(answered.statusCode ?? 500, answered.rawHeaders);
      answered.pipe(answer);
    });
    // If the caller has given up, nobody receives the answer.
    passed.on('error', () => answer.destroy());
    asked.pipe(passed);
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    front.closeAllConnections();
    front.close();
  });
  const address = front.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}`;
}

it('a bucket whose server takes a second and a half for each write is fit, though proving that takes longer than ten', async () => {
  const server = await startS3Server();
  onTestFinished(() => server.remove());
  server.makeBucket('own');
  const directory = mkdtempSync(join(tmpdir(), 'space-managed-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };
  const store = await openManagedStore(
    {
      S3_ENDPOINT: await startSlowly(server.endpoint, 1_500),
      S3_REGION: server.region,
      S3_BUCKET: 'own',
      S3_CREATE_BUCKET: false,
      S3_ADDRESSING: 'path',
      S3_ACCESS_KEY_FILE: file('id', server.accessKeyId),
      S3_SECRET_KEY_FILE: file('secret', server.secretAccessKey),
      S3_LONG_SECONDS: 60,
    },
    createLogger({ service: 'test', level: 'silent' }),
  );
  onTestFinished(() => store.close());
  expect((await store.s3.list({ prefix: '', limit: 10 })).objects).toEqual([]);
}, 300_000);
