import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { connect as connectSocket } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TLSSocket } from 'node:tls';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { makeAuthority } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { startEmbeddedServer } from '../../testing/postgres/server.ts';
import { client, DRIVER_PATH, mountFiles, type Reply, startTestBroker } from './testing/broker.ts';
import { connect, type Fixture, intoDatabase, openFixture, query, sqlstate } from './testing/postgres.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

describe('start-up refuses to listen', () => {
  it.each([
    [
      'when any role may enter postgres',
      'GRANT CONNECT ON DATABASE postgres TO PUBLIC',
      'REVOKE CONNECT ON DATABASE postgres FROM PUBLIC',
      /PUBLIC may connect to postgres/,
    ],
    [
      'when any role may enter template1',
      'GRANT CONNECT ON DATABASE template1 TO PUBLIC',
      'REVOKE CONNECT ON DATABASE template1 FROM PUBLIC',
      /template1/,
    ],
    [
      'without pg_signal_backend',
      'REVOKE pg_signal_backend FROM space_broker',
      'GRANT pg_signal_backend TO space_broker',
      /pg_signal_backend/,
    ],
    ['as superuser', 'ALTER ROLE space_broker SUPERUSER', 'ALTER ROLE space_broker NOSUPERUSER', /superuser/],
    [
      'without CREATEROLE',
      'ALTER ROLE space_broker NOCREATEROLE',
      'ALTER ROLE space_broker CREATEROLE',
      /CREATEROLE/,
    ],
    [
      'without CREATEDB',
      'ALTER ROLE space_broker NOCREATEDB',
      'ALTER ROLE space_broker CREATEDB',
      /CREATEDB/,
    ],
  ])('%s', async (_, open, close, reason) => {
    await fixture.sql(open);
    await expect(startTestBroker(fixture.mounts)).rejects.toThrow(reason);
    await fixture.sql(close);
  });

  it('unless the settings accept the open database by name', async () => {
    await fixture.sql('GRANT CONNECT ON DATABASE postgres TO PUBLIC');
    const broker = await fixture.replica({ environment: { ACCEPT_OPEN_DATABASES: 'postgres' } });
    expect(broker.log.join('')).toContain('accepted although open to PUBLIC: postgres');
    await broker.stop();
    await fixture.sql('REVOKE CONNECT ON DATABASE postgres FROM PUBLIC');
  });

  it('in a registry of another Space', async () => {
    await expect(fixture.replica({ environment: { SPACE_NAME: 'other' } })).rejects.toThrow(/another Space/);
  });

  it.each([
    ['malformed', '{"spec":1,'],
    ['with a duplicate key', readFileSync(DRIVER_PATH, 'utf8').replace('"spec": 1', '"spec": 1, "spec": 1')],
    ['incomplete', '{"spec":1,"service":"postgres","scope":"space"}'],
    ['unknown', readFileSync(DRIVER_PATH, 'utf8').replace('"spec": 1', '"spec": 1, "extra": true')],
    ['Capsule-scoped', readFileSync(DRIVER_PATH, 'utf8').replace('"scope": "space"', '"scope": "capsule"')],
    [
      'requiring credentials',
      readFileSync(DRIVER_PATH, 'utf8').replace('"spec": 1', '"spec": 1, "credential_policy": "byok"'),
    ],
    ['of another version', readFileSync(DRIVER_PATH, 'utf8').replace('"spec": 1', '"spec": 2')],
    ['that names another route', readFileSync(DRIVER_PATH, 'utf8').replace('apps/drop', 'apps/remove')],
  ])('with a driver document that is %s', async (_, text) => {
    const driverPath = join(fixture.mounts.directory, 'driver.json');
    writeFileSync(driverPath, text);
    // Another broker has the port, so a broker that listens before reading the document would report that instead.
    const environment = { LISTEN_PORT: String(fixture.broker.port) };
    const attempt = startTestBroker(fixture.mounts, { environment, driverPath });
    await expect(attempt).rejects.toThrow(/driver document/);
  });

  it('with a bad setting, which is named and not quoted', async () => {
    const attempt = startTestBroker(fixture.mounts, { environment: { LISTEN_PORT: 'canary' } });
    await expect(attempt).rejects.toThrow(/LISTEN_PORT/);
    await attempt.catch((error: Error) => expect(error.message).not.toContain('canary'));
  });
});

describe('while it runs', () => {
  it('reads a new administrator password and two provisioner tokens from their files', async () => {
    const capsule = await fixture.broker.capsule('files');
    await fixture.sql("ALTER ROLE space_broker PASSWORD 'rotated-password'");
    const url = new URL(fixture.server.brokerUrl);
    url.password = 'rotated-password';
    fixture.mounts.write('url', url.href);
    await fixture.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'space_broker'",
    );
    await eventually(async () => (await capsule.create('files', 'app')).status === 200, {
      what: 'the new password to be used',
    });

    const next = newToken('prv').reveal();
    fixture.mounts.write('token', `${fixture.mounts.provisioner}\n${next}`);
    await fixture.broker.refreshFiles();
    for (const token of [next, fixture.mounts.provisioner]) {
      expect((await fixture.broker.as(token).finalize('unknown')).status).toBe(404);
    }
    fixture.mounts.write('token', 'nonsense');
    await fixture.broker.refreshFiles();
    expect((await fixture.broker.as(next).finalize('unknown')).status).toBe(404);
    fixture.mounts.write('token', fixture.mounts.provisioner);
    await fixture.broker.refreshFiles();
    expect((await fixture.broker.as(next).finalize('unknown')).status).toBe(403);
  });

  it('shares its work with a replica: one of 64 creates creates the database', async () => {
    const replica = await fixture.replica();
    try {
      const capsule = await fixture.broker.capsule('pair');
      const callers = [capsule, replica.as(capsule.token)];
      // A caller that has waited too long for its turn on a busy machine is told to retry, and does.
      const ask = async (i: number, app: string): Promise<Reply> => {
        const reply = await callers[i % 2]!.create('pair', app);
        return reply.status === 503 ? ask(i, app) : reply;
      };
      for (const app of ['one', 'two', 'three', 'four', 'five']) {
        const replies = await Promise.all(Array.from({ length: 64 }, (_, i) => ask(i, app)));
        expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
        expect(replies.filter(({ json }) => json.created)).toHaveLength(1);
        expect(new Set(replies.map(({ json }) => json.database_url)).size).toBe(1);
      }
    } finally {
      await replica.stop();
    }
  });

  it('starts for the first time beside a replica', async () => {
    const fresh = await startEmbeddedServer({ durable: false });
    const mounts = mountFiles(fresh);
    const started = await Promise.allSettled([1, 2, 3].map(() => startTestBroker(mounts)));
    for (const one of started) if (one.status === 'fulfilled') await one.value.stop();
    mounts.remove();
    await fresh.remove();
    expect(started.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
  });

  it('answers 503 while the server has no connection left, and continues', async () => {
    const capsule = await fixture.broker.capsule('full');
    const held = [];
    for (;;) {
      try {
        held.push(await connect(fixture.server.superuserUrl.replace('/postgres', '/template1')));
      } catch {
        break;
      }
    }
    const replica = startTestBroker(fixture.mounts);
    expect((await fetch(`${fixture.broker.url}/healthz`)).status).toBe(200);
    const reply = await capsule.create('full', 'app');
    expect([200, 503]).toContain(reply.status);
    await Promise.all(held.map((one) => one.end()));
    await (await replica).stop();
    expect((await capsule.create('full', 'app')).status).toBe(200);
  });

  it('uses at most ten connections, and those of its watches', async () => {
    const capsule = await fixture.broker.capsule('many');
    await Promise.all(Array.from({ length: 40 }, (_, i) => capsule.create('many', `app${i % 12}`)));
    const [row] = await fixture.sql<{ n: number }>(
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = 'space_broker'",
    );
    expect(row!.n).toBeLessThanOrEqual(12);
  });

  it('limits a Capsule that sends too many requests, with Retry-After', async () => {
    const environment = {
      CAPSULE_REQUESTS_PER_SECOND: '1',
      CAPSULE_REQUESTS_BURST: '3',
      REFUSALS_PER_SECOND: '1',
      REFUSALS_BURST: '3',
    };
    const limited = await fixture.replica({ environment });
    const capsule = await fixture.broker.capsule('eager');
    const caller = limited.as(capsule.token);
    const replies = await Promise.all(Array.from({ length: 30 }, () => caller.create('eager', 'app')));
    const late = replies.filter(({ status }) => status === 429);
    expect(late.length).toBeGreaterThanOrEqual(1);
    for (const { headers, json } of late) {
      expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      expect(json.error).toEqual({ code: 'rate_limited' });
    }
    const refused = await Promise.all(Array.from({ length: 20 }, () => limited.as(undefined).finalize('x')));
    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([403, 429]));
    await limited.stop();
  });

  it('completes what it has begun when it is told to stop, and accepts nothing new', async () => {
    const replica = await fixture.replica();
    const capsule = await fixture.broker.capsule('drain');
    const caller = replica.as(capsule.token);
    const running = Array.from({ length: 8 }, (_, i) => caller.create('drain', `app${i}`));
    await eventually(() => replica.inFlight() > 0, { what: 'work to begin' });
    const stopped = replica.stop();
    const replies = await Promise.allSettled(running);
    for (const reply of replies) {
      if (reply.status === 'fulfilled') expect(reply.value.status).toBe(200);
    }
    expect(replies.some(({ status }) => status === 'fulfilled')).toBe(true);
    expect(await stopped).toBe(true);
    await expect(fetch(`${replica.url}/healthz`)).rejects.toThrow();
  });
});

describe('its certificate', () => {
  const NAME = 'db-broker.test-services.svc';
  const subjectAt = (port: number) =>
    new Promise<string>((resolve, reject) => {
      const call = request(
        { host: '127.0.0.1', port, path: '/healthz', rejectUnauthorized: false, agent: false },
        (response) => {
          resolve((response.socket as TLSSocket).getPeerCertificate().subject.CN?.toString() ?? '');
          response.resume();
        },
      );
      call.once('error', reject);
      call.end();
    });

  it('follows its files, both or neither, and the health check verifies it like a caller', async () => {
    const { directory } = fixture.mounts;
    const [authority, foreign] = [makeAuthority(directory, 'authority'), makeAuthority(directory, 'foreign')];
    const [one, two] = [authority.sign('one', [`DNS:${NAME}`]), authority.sign('two', [`DNS:${NAME}`])];
    const served = { cert: join(directory, 'served.crt'), key: join(directory, 'served.key') };
    const use = (from: { cert: string; key: string }, what: ('cert' | 'key')[]) => {
      for (const file of what) copyFileSync(from[file], served[file]);
    };
    use(one, ['cert', 'key']);
    const broker = await fixture.replica({
      environment: { TLS_CERT_FILE: served.cert, TLS_KEY_FILE: served.key },
    });
    expect(await subjectAt(broker.port)).toBe('one');
    use(two, ['cert']);
    await broker.refreshFiles();
    expect(await subjectAt(broker.port)).toBe('one');
    use(two, ['key']);
    await broker.refreshFiles();
    expect(await subjectAt(broker.port)).toBe('two');
    expect(new X509Certificate(readFileSync(served.cert)).subject).toBe('CN=two');
    const env = { PATH: process.env['PATH'], LISTEN_PORT: String(broker.port) };
    const health = (environment: Record<string, string>) => {
      const child = spawn(process.execPath, [join(import.meta.dirname, 'health.ts')], {
        env: { ...env, ...environment },
        stdio: 'ignore',
      });
      return once(child, 'exit').then(([code]) => code as number);
    };
    const believing = {
      TLS_CERT_FILE: served.cert,
      TLS_CA_FILE: authority.cert,
      TLS_SERVER_NAME: NAME,
    };
    // It gives each answer some seconds, in which a busy machine may stand still.
    await eventually(async () => (await health(believing)) === 0, { what: 'the health check to pass' });
    expect(await health({})).toBe(1);
    expect(await health({ ...believing, TLS_CA_FILE: foreign.cert })).toBe(1);
    expect(await health({ ...believing, TLS_SERVER_NAME: 'db-broker.other-services.svc' })).toBe(1);
    expect(await health({ ...believing, TLS_CA_FILE: '' })).toBe(1);
    expect(await health({ LISTEN_PORT: String(broker.metricsPort) })).toBe(1);
    const metrics = await (await fetch(`http://127.0.0.1:${broker.metricsPort}/metrics`)).text();
    const ends = Number(/^space_tls_certificate_not_after_seconds (.+)$/m.exec(metrics)?.[1]);
    expect(ends).toBe(new X509Certificate(readFileSync(two.cert)).validToDate.getTime() / 1000);
    await broker.stop();
  });
});

describe('npm run dev:db', () => {
  it('prints one line, works, and leaves nothing', async () => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'dev.ts')], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const exited = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGTERM');
      await exited;
    });
    const lines: string[] = [];
    const reader = createInterface({ input: child.stdout });
    reader.on('line', (line) => lines.push(line));
    await eventually(() => lines.length > 0, { what: 'the line' });
    const ready = JSON.parse(lines[0]!);
    expect(ready).toEqual({
      service: 'db-broker',
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      provisioner_token: expect.stringMatching(/^spc_prv_/),
      admin_database_url: expect.stringMatching(/^postgresql:/),
    });
    const reply = await client(ready.url, ready.provisioner_token).provision(
      'home',
      newToken('dbp').reveal(),
    );
    const url: string = reply.json.database_url;
    expect(await sqlstate(url)).toBe('ok');
    // It has pg_hba.conf and guard of the image: only one's own database, and few connections that have not logged in.
    expect(await sqlstate(intoDatabase(url, 'space_registry'))).toBe('28000');
    const [{ data_directory: data } = { data_directory: '' }] = await query<{ data_directory: string }>(
      ready.admin_database_url,
      'SHOW data_directory',
    );
    const crowd = Array.from({ length: 40 }, () => connectSocket(Number(new URL(url).port), '127.0.0.1'));
    for (const socket of crowd) socket.on('error', () => undefined).resume();
    await eventually(
      () =>
        readFileSync(join(dirname(data), 'server.log'), 'utf8').includes(
          'guard: too many connections that have not logged in',
        ),
      {
        what: 'the guard',
      },
    );
    for (const socket of crowd) socket.destroy();
    expect(statSync(data).isDirectory()).toBe(true);
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(existsSync(data)).toBe(false);
    expect(lines).toHaveLength(1);
    await expect(fetch(ready.url)).rejects.toThrow();
  });
});
