import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { openTcpProxy, type TcpProxy } from '../../../testing/tcp-proxy.ts';
import type { Reply, TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { type Fixture, MANY_DATABASES, openFixture, sqlstate } from '../testing/postgres.ts';
import { startStandby } from '../testing/standby.ts';
import { writeRows } from '../testing/writer.ts';

/** A broker whose line to the server, or whose server, goes away in the middle. */

let fixture: Fixture;
let line: TcpProxy;
let broker: TestBroker;
let lives = 0;

async function open(): Promise<void> {
  fixture = await openFixture({ settings: MANY_DATABASES }, { environment: { SPARE_DATABASES: '0' } });
  line = await openTcpProxy(fixture.server);
  const url = new URL(fixture.server.brokerUrl);
  url.port = String(line.port);
  fixture.mounts.write('url', url.href);
  // URLs lead through the line too, as through a Service. Without spares to make and sizes to write down, every
  // transaction is the test's own.
  const environment = { ISSUED_PORT: String(line.port), SPARE_DATABASES: '0', SIZE_INTERVAL_MS: '1000000' };
  broker = await fixture.replica({ environment });
}

async function close(): Promise<void> {
  await broker?.stop();
  await line?.close();
  await fixture?.close();
}

/** Asks until it is neither refused for now nor cut. */
async function insist<T extends { readonly status: number }>(ask: () => Promise<T>): Promise<T> {
  let last: T | undefined;
  await eventually(
    async () => {
      last = await ask();
      return last.status !== 503;
    },
    { what: 'an answer that is no 503' },
  );
  if (last === undefined) throw new Error('never asked');
  return last;
}

describe('a broken connection', () => {
  beforeAll(open);
  afterAll(close);

  it.each(
    [
      'BEGIN',
      'lock capsule',
      'insert database',
      'CREATE DATABASE',
      'CREATE ROLE',
      'audit ',
      'COMMIT',
      'ALLOW_CONNECTIONS false',
      'end sessions',
      'DROP DATABASE',
      'DROP ROLE',
    ].flatMap((text) => [[text, 'before'] as const, [text, 'after'] as const]),
  )('at %s, %s the server has done it, costs one retry and nothing else', async (text, moment) => {
    lives += 1;
    const id = `cut-x${lives}`;
    const capsule = await broker.capsule(id);
    const drops = /sessions|^DROP|false$/.test(text);
    if (drops) await capsule.create(id, 'app');
    const act = () => (drops ? capsule.drop(id, 'app') : capsule.create(id, 'app'));
    const sprung = line.cutAt(text, moment);
    const first = await act();
    expect(sprung()).toBe(true);
    expect([200, 503]).toContain(first.status);
    const again = await insist(act);
    expect(again.status).toBe(200);
    if (drops) expect((await capsule.create(id, 'app')).json.created).toBe(true);
    else expect(await sqlstate(again.json.database_url)).toBe('ok');
    expect(await census(fixture.server.superuserUrl)).toEqual([]);
    expect((await capsule.dropAll(id)).json.dropped).toHaveLength(2);
  });

  it('does not fail the health check, which does not query PostgreSQL', async () => {
    line.lead(1);
    const capsule = broker.as(newToken('dbp').reveal());
    expect((await capsule.create('cut-off', 'app')).status).toBe(503);
    const env = { PATH: process.env['PATH'], LISTEN_PORT: String(broker.port) };
    // It gives the answer some seconds, in which a busy machine may stand still.
    const passes = async () => {
      const child = spawn(process.execPath, [join(import.meta.dirname, '../health.ts')], { env });
      return (await once(child, 'exit'))[0] === 0;
    };
    await eventually(passes, { what: 'the health check to pass' });
    line.lead(fixture.server.port);
  });
});

describe('a standby', () => {
  beforeEach(open);
  afterEach(close);

  it.each([
    ['is killed', () => fixture.server.kill()],
    ['is shut down for a switchover', () => fixture.server.stop()],
  ])('that replaces a primary that %s under load has everything that was answered', async (_, end) => {
    const standby = await startStandby(fixture.server);
    try {
      const principal = newToken('dbp').reveal();
      const provisioned = await insist(() => broker.provisioner.provision('moving', principal));
      expect(provisioned.status).toBe(200);
      const rows = await writeRows(provisioned.json.database_url);
      const capsule = broker.as(principal);
      const urls = new Map<string, string>();
      let moved = false;
      const refusals: Reply[] = [];
      const working = Array.from({ length: 4 }, async (_, worker) => {
        for (let i = 0; !moved || i < 4; i += 1) {
          const app = `w${worker}-x${i}`;
          const reply = await capsule.create('moving', app);
          if (reply.status === 200) urls.set(app, reply.json.database_url);
          else {
            refusals.push(reply);
            // As a caller does that is told to retry, since otherwise it would use up its own share of requests.
            await new Promise((resolve) => setTimeout(resolve, 50));
          }
          if (reply.status === 200 && i % 3 === 2) {
            if ((await insist(() => capsule.drop('moving', app))).status === 200) urls.delete(app);
          }
        }
      });
      await eventually(() => urls.size >= 6 && rows.acknowledged() > 0, { what: 'work to be under way' });
      expect((await fetch(`${broker.url}/healthz`)).status).toBe(200);
      await end();
      await eventually(() => refusals.length > 0, { what: 'a refusal' });
      const before = rows.acknowledged();
      await standby.promote();
      line.lead(standby.port);
      await insist(() => capsule.create('moving', 'after'));
      moved = true;
      await Promise.all(working);
      for (const { status, headers, json } of refusals)
        expect([status, json.error.code, Number(headers.get('retry-after'))]).toEqual([
          503,
          'unavailable',
          2,
        ]);
      expect((await fetch(`${broker.url}/healthz`)).status).toBe(200);

      await eventually(() => rows.acknowledged() > before, { what: 'a row after the move' });
      expect(await rows.lost()).toEqual([]);
      for (const [app, url] of urls) {
        const again = await insist(() => capsule.create('moving', app));
        expect(again.json).toMatchObject({ created: false, database_url: url });
        expect(await sqlstate(url)).toBe('ok');
      }
      expect(await census(standby.superuserUrl)).toEqual([]);
      expect((await insist(() => capsule.dropAll('moving'))).status).toBe(200);
      expect(await census(standby.superuserUrl)).toEqual([]);
    } finally {
      await standby.remove();
    }
  });

  it('that was not promoted is not used', async () => {
    const standby = await startStandby(fixture.server);
    try {
      line.lead(standby.port);
      await expect(fixture.replica()).rejects.toThrow(/read-only standby/);
      const principal = newToken('dbp').reveal();
      expect((await broker.provisioner.provision('still', principal)).status).toBe(503);
      await standby.promote();
      expect((await insist(() => broker.provisioner.provision('still', principal))).json.created).toBe(true);
    } finally {
      await standby.remove();
    }
  });
});
