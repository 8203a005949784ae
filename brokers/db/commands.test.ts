import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { digestOf, newToken, Secret } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { COMMANDS } from './commands.ts';
import type { Context } from './context.ts';
import { createApp } from './operations/provision.ts';
import { census } from './testing/census.ts';
import { connect, type Fixture, openFixture, sqlstate } from './testing/postgres.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

const trace = 'a'.repeat(32);
const command = (name: string, args: string[] = [], input = '') =>
  COMMANDS[name]!.run(fixture.broker.servers, trace, args, async () => input);

describe('rotation', () => {
  it('gives the new URL at the next create and the same one afterwards; the old one no longer works', async () => {
    const capsule = await fixture.broker.capsule('rotating');
    const before: string = (await capsule.create('rotating', 'app')).json.database_url;
    expect(await command('rotate', ['rotating', 'app'])).toEqual({ marked: 1 });
    expect(await sqlstate(before)).toBe('ok');
    const after = await capsule.create('rotating', 'app');
    expect(after.json.created).toBe(false);
    expect(after.json.database_url).not.toBe(before);
    expect(new URL(after.json.database_url).pathname).toBe(new URL(before).pathname);
    expect(await sqlstate(before)).toBe('28P01');
    expect(await sqlstate(after.json.database_url)).toBe('ok');
    expect((await capsule.create('rotating', 'app')).json.database_url).toBe(after.json.database_url);
  });

  it('ends sessions with the old password, which no longer works', async () => {
    const capsule = await fixture.broker.capsule('stolen');
    const before: string = (await capsule.create('stolen', 'app')).json.database_url;
    const { username: name } = new URL(before);
    const thieves = await Promise.all(Array.from({ length: 5 }, () => connect(before)));
    await command('rotate', ['stolen', 'app', '--end-sessions']);
    // One session locks the role, the other keeps changing it.
    await thieves[0]!.query(`BEGIN; ALTER ROLE ${name} IN DATABASE ${name} SET work_mem = '1MB'`);
    const changing = thieves[1]!.query(
      `DO $$ BEGIN LOOP EXECUTE 'ALTER ROLE ${name} PASSWORD ''thief'''; COMMIT; END LOOP; END $$`,
    );
    const ended = expect(changing).rejects.toThrow();
    const after = await capsule.create('stolen', 'app');
    expect(after).toMatchObject({ status: 200, json: { created: false } });
    await ended;
    for (const thief of thieves) await expect(thief.query('SELECT 1')).rejects.toThrow();
    for (const password of [new URL(before).password, 'thief']) {
      const url = new URL(before);
      url.password = password;
      expect(await sqlstate(url.href)).toBe('28P01');
    }
    const mine = await connect(after.json.database_url);
    expect((await capsule.create('stolen', 'app')).json.database_url).toBe(after.json.database_url);
    // Once is enough.
    await mine.query('SELECT 1');
    await mine.end();
    for (const thief of thieves) await thief.end().catch(() => undefined);
  });

  it('refuses a login that has sent the old password and is not complete when it changes', async () => {
    const capsule = await fixture.broker.capsule('door');
    const before: string = (await capsule.create('door', 'app')).json.database_url;
    await command('rotate', ['door', 'app', '--end-sessions']);
    const waiting = (mode: string) =>
      fixture.sql<{ pid: number }>(
        "SELECT pid FROM pg_locks WHERE locktype = 'object' AND NOT granted AND mode = $1",
        [mode],
      );
    const { context } = fixture.broker;
    let thief: { readonly pid: number; readonly entered: Promise<string> } | undefined;
    const transaction: Context['connections']['transaction'] = (work, afterCommit) =>
      context.connections.transaction(async (session, attempt) => {
        const value = await work(session, attempt);
        if (thief !== undefined) return value;
        const entered = sqlstate(before);
        await eventually(async () => (await waiting('RowExclusiveLock')).length > 0, { what: 'the thief' });
        const [found] = await waiting('RowExclusiveLock');
        thief = { pid: found!.pid, entered };
        // A busy machine may let it continue only after the broker has completed everything.
        process.kill(thief.pid, 'SIGSTOP');
        return value;
      }, afterCommit);
    const call = { traceId: trace, principal: digestOf(new Secret(capsule.token!)) };
    let over = false;
    const rotated = createApp(
      { ...context, connections: { ...context.connections, transaction } },
      call,
      'door',
      'app',
    ).finally(() => {
      over = true;
    });
    const isHeldUp = async () =>
      over || (thief !== undefined && (await waiting('AccessExclusiveLock')).length > 0);
    await eventually(isHeldUp, { what: 'the broker to wait for it, or to have opened' });
    process.kill(thief!.pid, 'SIGCONT');
    expect(await sqlstate((await rotated).url)).toBe('ok');
    expect(await thief!.entered).not.toBe('ok');
  });

  it("reaches the Capsule's own database by provision", async () => {
    const principal = newToken('dbp').reveal();
    const first = await fixture.broker.provisioner.provision('own', principal);
    await command('rotate', ['own']);
    const second = await fixture.broker.provisioner.provision('own', principal);
    expect(second.json.database_url).not.toBe(first.json.database_url);
    expect(await sqlstate(second.json.database_url)).toBe('ok');
  });

  it('moves everything to a new derivation key, after which the old one may be removed', async () => {
    const capsule = await fixture.broker.capsule('keyring');
    const before: string = (await capsule.create('keyring', 'app')).json.database_url;
    const path = join(fixture.mounts.directory, 'derivation');
    const fresh = randomBytes(32).toString('base64url');
    const old = readFileSync(path, 'utf8').trim();
    fixture.mounts.write('derivation', `${fresh}\n${old}`);
    await fixture.broker.refreshFiles();
    expect((await capsule.create('keyring', 'app')).json.database_url).toBe(before);
    await command('rotate', ['--all']);
    const after: string = (await capsule.create('keyring', 'app')).json.database_url;
    expect(await sqlstate(after)).toBe('ok');
    const keys = await fixture.registry<{ keys: number }>(
      "SELECT count(DISTINCT key_id)::int AS keys FROM broker.database WHERE state = 'ready'",
    );
    expect(keys).toEqual([{ keys: 2 }]);
    fixture.mounts.write('derivation', fresh);
    await expect(fixture.replica()).rejects.toThrow(/keys that databases depend on are missing/);
    fixture.mounts.write('derivation', `${fresh}\n${old}`);
  });
});

describe('an administrator', () => {
  it('lists Capsules and databases without a credential in them', async () => {
    const capsule = await fixture.broker.capsule('listed');
    const { password } = new URL((await capsule.create('listed', 'app')).json.database_url);
    const lines = String(await command('list'))
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.find((line) => line.capsule === 'listed')).toMatchObject({
      state: 'active',
      databases: [{ app: '' }, { app: 'app', state: 'ready', generation: 1, closed: false }],
    });
    expect(JSON.stringify(lines)).not.toContain(password);
  });

  it('closes a retained database, which then stays closed, and opens it again', async () => {
    const capsule = await fixture.broker.capsule('kept');
    const url: string = (await capsule.create('kept', 'app')).json.database_url;
    const session = await connect(url);
    await session.query("CREATE TABLE t AS SELECT 'kept' AS word");
    await command('close', ['kept']);
    await expect(session.query('SELECT 1')).rejects.toThrow();
    expect(await sqlstate(url)).not.toBe('ok');
    expect((await capsule.create('kept', 'app')).status).toBe(409);
    await fixture.broker.round('drift');
    expect(await sqlstate(url)).not.toBe('ok');
    await command('open', ['kept']);
    expect(await sqlstate(url, "SELECT 1 / (word = 'kept')::int FROM t")).toBe('ok');
    expect((await capsule.create('kept', 'app')).json.database_url).toBe(url);
  });

  it('closes a database on which its tenant holds a lock', async () => {
    const capsule = await fixture.broker.capsule('clinging');
    const url: string = (await capsule.create('clinging', 'app')).json.database_url;
    const { username: name } = new URL(url);
    const session = await connect(url);
    await session.query('SET idle_in_transaction_session_timeout = 0; BEGIN');
    await session.query(`GRANT CONNECT ON DATABASE ${name} TO ${name}`);
    expect(await command('close', ['clinging'])).toEqual({ closed: expect.arrayContaining([name]) });
    await expect(session.query('SELECT 1')).rejects.toThrow();
    expect(await sqlstate(url)).not.toBe('ok');
    await command('drop', ['clinging']);
  });

  it('drops a retained database, and its id is free', async () => {
    const capsule = await fixture.broker.capsule('doomed');
    await capsule.create('doomed', 'app');
    await command('close', ['doomed']);
    expect(await command('drop', ['doomed'])).toEqual({ dropped: [expect.any(String), expect.any(String)] });
    expect((await capsule.create('doomed', 'app')).status).toBe(403);
    // The operator finds a Capsule of which an administrator dropped the data without a principal, and asks for another.
    await expect(command('replace-principal', ['doomed'], newToken('dbp').reveal())).rejects.toThrow(
      /finalized: its data was dropped.* Delete the Capsule and apply it again/,
    );
    expect(
      (await fixture.broker.provisioner.provision('doomed', newToken('dbp').reveal())).json.created,
    ).toBe(true);
    expect(await census(fixture.server.superuserUrl)).toEqual([]);
  });

  it('replaces a lost principal, which is never valid again', async () => {
    const lost = await fixture.broker.capsule('lost');
    const found = newToken('dbp').reveal();
    expect(await command('replace-principal', ['lost'], `${found}\n`)).toEqual({ replaced: true });
    expect((await lost.create('lost', 'app')).status).toBe(403);
    expect((await fixture.broker.as(found).create('lost', 'app')).status).toBe(200);
    expect((await fixture.broker.provisioner.provision('other', lost.token ?? '')).status).toBe(409);
    await expect(command('replace-principal', ['lost'], 'short')).rejects.toThrow(/one token/);
  });

  it('leaves an audit row for every command, which cannot be changed', async () => {
    const rows = await fixture.registry<{ operation: string }>(
      "SELECT DISTINCT operation FROM broker.audit WHERE authority = 'administrator' AND trace_id = $1 ORDER BY 1",
      [trace],
    );
    expect(rows.map(({ operation }) => operation)).toEqual([
      'administrator.close',
      'administrator.drop',
      'administrator.open',
      'administrator.replace-principal',
      'administrator.rotate',
    ]);
    for (const change of [
      'DELETE FROM broker.audit',
      'UPDATE broker.audit SET outcome = outcome',
      'TRUNCATE broker.audit',
    ]) {
      await expect(fixture.registry(change)).rejects.toThrow(/append-only/);
    }
  });

  it('runs commands in the container, which prints its usage', async () => {
    const run = (...args: string[]) =>
      new Promise<{ code: number | string | null | undefined; out: string; err: string }>((resolve) => {
        const env = { PATH: process.env['PATH'], ...fixture.mounts.environment };
        execFile(
          process.execPath,
          [join(import.meta.dirname, 'admin.ts'), ...args],
          { env },
          (error, out, err) => resolve({ code: error === null ? 0 : error.code, out, err }),
        );
      });
    expect(await run('list')).toMatchObject({ code: 0, out: expect.stringContaining('"capsule":"listed"') });
    expect(await run()).toMatchObject({ code: 2, err: expect.stringContaining('replace-principal CAPSULE') });
    expect(await run('drop', 'nobody')).toMatchObject({ code: 1, err: 'no such Capsule\n' });
    expect(await run('drop')).toMatchObject({ code: 2 });
  });
});
