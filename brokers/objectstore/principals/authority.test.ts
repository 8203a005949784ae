import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { COMMANDS } from '../commands.ts';
import { assistant } from '../testing/assistant.ts';
import { type Client, client, type Reply } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** Changes of a Capsule's row by somebody who can write to the registry. */

let fixture: Fixture;
let count = 0;
let id = '';
let own: Client;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());
beforeEach(async () => {
  count += 1;
  id = `capsule-${count}`;
  own = await fixture.broker.capsule(id);
});

const token = () => newToken('osw').reveal();
const generic = ({ status, json }: Reply) => ({ status, error: json.error });
const refused = { status: 403, error: { code: 'forbidden' } };

/** All that a Capsule's principal may ask for; the last ones would end it. */
const asksOf = (as: Client, capsule: string): Record<string, () => Promise<Reply>> => ({
  usage: () => as.post('/v1/capsules/usage', { capsule_id: capsule }),
  create: () => as.create(capsule, 'app', token()),
  'what is no request': () => as.post('/v1/capsules/apps/create', { capsule_id: capsule }),
  list: () => as.post('/v1/capsules/credentials/list', { capsule_id: capsule }),
  select: () =>
    as.post('/v1/capsules/credentials/select', {
      ...{ capsule_id: capsule, set_id: null, expected_inventory_generation: 0 },
    }),
  drop: () => as.drop(capsule, 'app'),
  dropAll: () => as.dropAll(capsule),
});

async function answersOf(as: Client, capsule: string) {
  const answers: Record<string, ReturnType<typeof generic>> = {};
  for (const [name, ask] of Object.entries(asksOf(as, capsule))) answers[name] = generic(await ask());
  return answers;
}
const allRefused = (capsule: string) =>
  Object.fromEntries(Object.keys(asksOf(own, capsule)).map((name) => [name, refused]));

const alarms = async () => {
  const text = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
  return Number(/custody_alarms_total\{alarm="forged_principal"\} (\d+)/.exec(text)?.[1] ?? 0);
};

describe('a Capsule’s row that somebody edited', () => {
  it('with a principal of somebody’s own is refused like an unknown one', async () => {
    const forged = client(fixture.broker.url, newToken('osp').reveal());
    const before = await alarms();
    await fixture.registry('UPDATE broker.capsule SET principal = sha256($1) WHERE capsule_id = $2', [
      Buffer.from(forged.token ?? ''),
      id,
    ]);
    expect(await answersOf(forged, id)).toEqual(allRefused(id));
    expect(await alarms()).toBe(before + Object.keys(allRefused(id)).length);
    const line = fixture.broker.log.find(
      (one) => one.includes('a principal that this broker did not register') && one.includes(id),
    );
    expect(line).toBeDefined();
    expect(line).not.toContain(forged.token);
  });

  it('with the principal of another Capsule is refused', async () => {
    const attacker = await fixture.broker.capsule(`attacker-${count}`);
    await fixture.registry(
      `WITH mine AS (UPDATE broker.capsule SET state = 'retired', principal = NULL WHERE capsule_id = $1)
       SELECT 1`,
      [`attacker-${count}`],
    );
    await fixture.registry('UPDATE broker.capsule SET principal = sha256($1) WHERE capsule_id = $2', [
      Buffer.from(attacker.token ?? ''),
      id,
    ]);
    // The MAC of its own row, too.
    await fixture.registry(
      'UPDATE broker.store SET mac = (SELECT mac FROM broker.store WHERE capsule_id = $1) WHERE capsule_id = $2',
      [`attacker-${count}`, id],
    );
    expect(await answersOf(attacker, id)).toEqual(allRefused(id));
  });

  it('with the prefix of another is refused: no Assistant can share its files', async () => {
    const victim = `victim-${count}`;
    const theirs = await fixture.broker.capsule(victim);
    await fixture.broker.workload(theirs, victim, 'app');
    const [store] = await fixture.registry<{ place: string }>(
      `WITH victim AS (SELECT place FROM broker.store WHERE capsule_id = $1),
            moved AS (UPDATE broker.store SET place = 'c/' || repeat('7', 40) || '/' WHERE capsule_id = $1 RETURNING 1)
       SELECT place FROM victim, moved`,
      [victim],
    );
    await fixture.registry('UPDATE broker.store SET place = $1 WHERE capsule_id = $2', [store?.place, id]);
    expect(await answersOf(own, id)).toEqual(allRefused(id));
    expect(await answersOf(theirs, victim)).toEqual(allRefused(victim));
    // Nor does it become good by being provisioned again.
    expect((await fixture.broker.provisioner.provision(id, own.token ?? '')).status).toBe(409);
    expect(generic(await own.create(id, 'app', token()))).toEqual(refused);
  });

  it('in another incarnation is refused', async () => {
    await fixture.registry('UPDATE broker.capsule SET life = 2 WHERE capsule_id = $1', [id]);
    await fixture.registry('UPDATE broker.store SET life = 2 WHERE capsule_id = $1', [id]);
    expect(await answersOf(own, id)).toEqual(allRefused(id));
  });

  it('between the look-up and the operation is detected under the lock', async () => {
    const { context } = fixture.broker;
    const digest = Buffer.alloc(32, 7);
    await fixture.registry('UPDATE broker.capsule SET principal = $1 WHERE capsule_id = $2', [digest, id]);
    const call = { traceId: 'trace', principal: digest as never };
    await expect(
      context.connections.transaction((session) => context.capsules.authorise(session, call, id, 'drop')),
    ).rejects.toMatchObject({ code: 'forbidden' });
  });

  it('without a MAC is refused, until the provisioner or an administrator names its principal again', async () => {
    const unbind = () => fixture.registry('UPDATE broker.store SET mac = NULL WHERE capsule_id = $1', [id]);
    await unbind();
    expect(generic(await own.create(id, 'app', token()))).toEqual(refused);
    expect((await fixture.broker.provisioner.provision(id, own.token ?? '')).json.created).toBe(false);
    expect((await own.create(id, 'app', token())).status).toBe(200);
    await unbind();
    const next = newToken('osp').reveal();
    const replace = COMMANDS['replace-principal'];
    await replace?.run(fixture.broker.context, 'a'.repeat(32), [id], async () => next);
    expect(generic(await own.create(id, 'two', token()))).toEqual(refused);
    expect((await client(fixture.broker.url, next).create(id, 'two', token())).status).toBe(200);
  });
});

it('a workload’s edited prefix does not become valid by another principal for it', async () => {
  const [, victim] = [
    await fixture.broker.workload(own, id, 'mine'),
    await fixture.broker.workload(own, id, 'victim'),
  ];
  await assistant(fixture.broker.dataUrl, victim).put('file', 'secret');
  const [row] = await fixture.registry<{ place: string }>(
    `WITH victim AS (SELECT place FROM broker.workload WHERE capsule_id = $1 AND app_id = 'victim'),
          moved AS (UPDATE broker.workload SET place = left(place, 45) || repeat('8', 40) || '/'
                    WHERE capsule_id = $1 AND app_id = 'victim' RETURNING 1)
     SELECT place FROM victim, moved`,
    [id],
  );
  await fixture.registry(`UPDATE broker.workload SET place = $1 WHERE capsule_id = $2 AND app_id = 'mine'`, [
    row?.place,
    id,
  ]);
  const next = token();
  expect(generic(await own.create(id, 'mine', next))).toEqual(refused);
  expect((await assistant(fixture.broker.dataUrl, next).get('file')).status).toBe(403);
});
