import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { COMMANDS } from './commands.ts';
import { BUCKET, DRIVER_DIRECTORY } from './testing/broker.ts';
import { type Fixture, openFixture } from './testing/fixture.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

describe('discovery', () => {
  it.each([
    ['/v1/driver', 'objectstore.json'],
    ['/v1/driver/credentials', 'objectstore-credentials.json'],
  ])('serves %s byte for byte', async (path, file) => {
    const response = await fetch(`${fixture.broker.url}${path}`);
    expect(response.status).toBe(200);
    expect(Buffer.from(await response.arrayBuffer())).toEqual(readFileSync(join(DRIVER_DIRECTORY, file)));
  });

  it('is alive without a credential', async () => {
    const response = await fetch(`${fixture.broker.url}/healthz`);
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }]);
  });
});

describe('a Capsule', () => {
  it('is provisioned once, however often it is retried', async () => {
    const { provisioner } = fixture.broker;
    const principal = newToken('osp').reveal();
    const answers = [];
    for (let i = 0; i < 3; i += 1)
      answers.push((await provisioner.provision('once', principal)).json.created);
    expect(answers).toEqual([true, false, false]);
    expect((await provisioner.provision('once', newToken('osp').reveal())).status).toBe(409);
    expect((await provisioner.provision('twice', principal)).status).toBe(409);
  });

  it('uses the quota that its provisioner sets', async () => {
    const { provisioner } = fixture.broker;
    const principal = newToken('osp').reveal();
    const quotas = [];
    for (const more of [{ quota_bytes: 1000 }, undefined, { quota_bytes: 2000 }]) {
      expect((await provisioner.provision('counted', principal, more)).status).toBe(200);
      const [row] = await fixture.registry<{ quota: string | null }>(
        `SELECT quota_bytes AS quota FROM broker.store WHERE capsule_id = 'counted'`,
      );
      quotas.push(row?.quota);
    }
    expect(quotas).toEqual(['1000', null, '2000']);
  });
});

describe('an administrator', () => {
  it('counts objects that another program has stored in the bucket', async () => {
    const { broker, registry, s3 } = fixture;
    await broker.capsule('filled');
    const [store] = await registry<{ place: string }>(
      "SELECT place FROM broker.store WHERE capsule_id = 'filled'",
    );
    const folder = join(s3.directory, BUCKET, store!.place, 's');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'restored'), 'x'.repeat(100_000));
    const recount = (...args: string[]) =>
      COMMANDS['recount']?.run(broker.context, 'b'.repeat(32), args, async () => '');
    expect(await recount('filled')).toEqual({ counted: true });
    const [usage] = await registry('SELECT counted::int FROM broker.object_usage WHERE place = $1', [
      store!.place,
    ]);
    expect(usage?.['counted']).toBeGreaterThan(100_000);
    expect(() => recount()).toThrow(/exactly one Capsule/);
    await expect(recount('none')).rejects.toThrow(/no such Capsule/);
  });

  it('replaces a lost principal, which is never valid again', async () => {
    const { broker } = fixture;
    const lost = await broker.capsule('lost');
    const found = newToken('osp').reveal();
    const workload = newToken('osw').reveal();
    const command = (name: string, args: string[], input = '') =>
      COMMANDS[name]?.run(broker.context, 'b'.repeat(32), args, async () => input);
    expect(await command('replace-principal', ['lost'], `${found}\n`)).toEqual({ replaced: true });
    expect((await lost.create('lost', 'app', workload)).status).toBe(403);
    expect((await broker.as(found).create('lost', 'app', workload)).status).toBe(200);
    expect((await broker.provisioner.provision('other', lost.token ?? '')).status).toBe(409);
    expect(await command('replace-principal', ['lost'], found)).toEqual({ replaced: false });
    await expect(command('replace-principal', ['lost'], 'short')).rejects.toThrow(/one token/);
    await expect(command('replace-principal', [], found)).rejects.toThrow(/exactly one Capsule/);
    await expect(command('replace-principal', ['none'], newToken('osp').reveal())).rejects.toThrow(
      /no such Capsule/,
    );
    const rows = await fixture.registry<{ outcome: string }>(
      "SELECT outcome FROM broker.audit WHERE operation = 'administrator.replace-principal'",
    );
    expect(rows).toEqual([{ outcome: 'replaced' }]);
  });
});

describe('a workload', () => {
  it('is registered once, and another principal replaces the first permanently', async () => {
    const capsule = await fixture.broker.capsule('works');
    const [first, second] = [newToken('osw').reveal(), newToken('osw').reveal()];
    const created = [];
    for (const token of [first, first, second])
      created.push((await capsule.create('works', 'app', token)).json.created);
    expect(created).toEqual([true, false, false]);
    expect((await capsule.create('works', 'app', first)).status).toBe(409);
    expect((await capsule.create('works', 'other', second)).status).toBe(409);
  });

  it('is not registered by another Capsule', async () => {
    const capsule = await fixture.broker.capsule('mine');
    await fixture.broker.capsule('theirs');
    expect((await capsule.create('theirs', 'app', newToken('osw').reveal())).status).toBe(403);
  });
});
