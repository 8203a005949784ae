import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Fixture, openFixture } from '../testing/postgres.ts';
import { forgetOld } from './retention.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({}, { environment: { SPARE_DATABASES: '0', RETENTION_DAYS: '100' } });
});
afterAll(() => fixture.close());

/** As if so many days had passed since. */
async function age(days: number): Promise<void> {
  for (const [table, column] of [
    ['database', 'changed_at'],
    ['capsule', 'changed_at'],
    ['retired_principal', 'retired_at'],
  ])
    await fixture.registry(`UPDATE broker.${table} SET ${column} = ${column} - interval '${days} days'`);
  await fixture.registry(
    `SET session_replication_role = replica; UPDATE broker.audit SET at = at - interval '${days} days'`,
  );
}

const counts = async () => {
  const [row] = await fixture.registry<{
    audit: number;
    tombstones: number;
    digests: number;
    capsules: number;
  }>(
    `SELECT (SELECT count(*)::int FROM broker.audit) AS audit,
       (SELECT count(*)::int FROM broker.database WHERE state = 'dropped') AS tombstones,
       (SELECT count(*)::int FROM broker.retired_principal) AS digests,
       (SELECT count(*)::int FROM broker.capsule) AS capsules`,
  );
  return row;
};

it('rows that were kept long enough are deleted and leave their counts, and the others stay', async () => {
  const living = await fixture.broker.capsule('living');
  await living.create('living', 'gone');
  await living.drop('living', 'gone');
  const url: string = (await living.create('living', 'app')).json.database_url;
  const ended = await fixture.broker.capsule('ended');
  await ended.dropAll('ended');
  await fixture.broker.provisioner.finalize('ended');
  const before = await counts();
  expect(before).toMatchObject({ tombstones: 2, digests: 1, capsules: 2 });

  await age(99);
  await fixture.broker.round('retention');
  expect(await counts()).toEqual(before);

  await age(2);
  await living.create('living', 'app');
  await fixture.broker.round('retention');
  expect(await counts()).toEqual({ audit: 1, tombstones: 0, digests: 0, capsules: 1 });
  const [sums] = await fixture.registry<{ entries: number; creations: number }>(
    `SELECT sum(entries)::int AS entries,
       (sum(entries) FILTER (WHERE operation = 'capsule.app.create' AND outcome = 'created'))::int AS creations
     FROM broker.audit_summary`,
  );
  expect(sums).toEqual({ entries: before?.audit, creations: 2 });

  expect((await living.create('living', 'app')).json).toMatchObject({ created: false, database_url: url });
  expect((await living.drop('living', 'gone')).status).toBe(404);
  expect((await fixture.broker.provisioner.provision('ended', newToken('dbp').reveal())).json.created).toBe(
    true,
  );
  expect((await ended.create('ended', 'app')).status).toBe(403);
});

it('nothing is deleted while the clock of the server is far ahead of the elapsed time', async () => {
  const capsule = await fixture.broker.capsule('kept');
  await capsule.dropAll('kept');
  await fixture.broker.provisioner.finalize('kept');
  // The clock here is set, instead of the server's: what is 50 days behind sees one that is 50 days ahead.
  let here = 0;
  const round = forgetOld(fixture.broker.context, 100, () => here);
  const run = () => round.run(new AbortController().signal);
  const days = 86_400_000;
  await run();
  await age(101);
  const before = await counts();
  expect(before).toMatchObject({ tombstones: 1, digests: 1 });

  here -= 50 * days;
  // Of errors of this class the log has the message.
  for (const _ of ['once', 'and again'])
    await expect(run()).rejects.toMatchObject({
      name: 'ServiceError',
      message: expect.stringContaining('clock of the server has jumped'),
    });
  expect(await counts()).toEqual(before);

  here += 50 * days;
  await run();
  expect(await counts()).toMatchObject({ audit: 0, tombstones: 0, digests: 0 });
});

it('no audit entry of the last 30 days can be deleted, and none can be changed', async () => {
  await fixture.broker.capsule('audited');
  for (const change of [
    'DELETE FROM broker.audit',
    'UPDATE broker.audit SET at = at',
    'TRUNCATE broker.audit',
  ])
    await expect(fixture.registry(change)).rejects.toThrow(/append-only/);
});
