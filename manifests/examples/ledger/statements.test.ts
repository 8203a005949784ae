import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Fixture, openFixture } from '../../../brokers/objectstore/testing/fixture.ts';
import { type Service, startService } from './service.ts';

/** The statement of a month, through a real object-storage broker and store. */

let fixture: Fixture;
let service: Service;
let tokenFile: string;

beforeAll(async () => {
  fixture = await openFixture();
  const capsule = await fixture.broker.capsule('household');
  tokenFile = join(fixture.mounts.directory, 'OBJECT_STORE_TOKEN');
  writeFileSync(tokenFile, `${await fixture.broker.workload(capsule, 'household', 'ledger')}\n`);
  service = await start({ OBJECT_STORE_URL: fixture.broker.dataUrl, OBJECT_STORE_TOKEN_FILE: tokenFile });
});
afterAll(async () => {
  await service?.stop();
  await fixture?.close();
});

function start(environment: Record<string, string>): Promise<Service> {
  return startService({
    databaseUrl: fixture.server.superuserUrl,
    port: 0,
    environment,
    log: () => undefined,
    now: () => new Date('2026-11-21T12:00:00Z'),
  });
}

async function call({ port }: Service, method: string, path: string, body?: object) {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came back
  return { status: answer.status, body: (await answer.json()) as any };
}

it('is created from the journal, stored as a file, and returned as it was stored', async () => {
  expect((await call(service, 'GET', '/statements/2026-11')).status).toBe(404);
  const lines = [
    { account: 'expenses:groceries', currency: 'EUR', amount: '42.50' },
    { account: 'assets:bank', currency: 'EUR', amount: '-42.50' },
  ];
  await call(service, 'POST', '/entries', { description: 'Groceries', date: '2026-11-02', lines });
  await call(service, 'POST', '/entries', { description: 'Before', date: '2026-10-31', lines });
  const made = await call(service, 'POST', '/statements/2026-11');
  expect(made.status).toBe(200);
  expect(made.body.statement).toContain('assets:bank  -42.50 EUR  Groceries');
  expect(made.body.statement).not.toContain('Before');

  await call(service, 'POST', '/entries', { description: 'Later', date: '2026-11-03', lines });
  expect(await call(service, 'GET', '/statements/2026-11')).toEqual(made);
});

it.each(['2026-13', '2026-1', '0000-01', '2026-11%2F..'])('has no month %s', async (month) => {
  expect([400, 404]).toContain((await call(service, 'POST', `/statements/${month}`)).status);
});

it('is refused with a reason if a Space has no object store, and the rest keeps working', async () => {
  const without = await start({});
  const answer = await call(without, 'POST', '/statements/2026-11');
  expect([answer.status, answer.body.error.code]).toEqual([404, 'not_found']);
  expect((await call(without, 'GET', '/trial-balance')).status).toBe(200);
  await without.stop();
});

it('reports an unavailable store without details of its own', async () => {
  await fixture.s3.kill();
  const answer = await call(service, 'GET', '/statements/2026-11');
  await fixture.s3.start();
  expect([answer.status, answer.body.error.code]).toEqual([503, 'unavailable']);
  expect((await call(service, 'GET', '/statements/2026-11')).status).toBe(200);
});
