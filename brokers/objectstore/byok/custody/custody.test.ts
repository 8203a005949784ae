import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLogger } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig } from '../../config.ts';
import { BUCKET, client, type TestBroker } from '../../testing/broker.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { spawnBroker } from '../../testing/process.ts';
import { openManagedStore } from '../../upstream/managed.ts';
import { credentialsOf, type OwnStore, startOwnStore } from '../credentials/testing/byok.ts';
import { anchorKey } from './anchor.ts';
import { bucketAnchors } from './anchor-store.ts';
import { acceptCommand, custodyStates, discardCommand } from './commands.ts';
import { writeInventory } from './rows.ts';
import { backUp } from './testing/backup.ts';
import { checkRevocation } from './testing/revocation.ts';

/** Changes of the rows, the bucket, the keys or the process, with a real PostgreSQL and real S3 servers. */

let store: OwnStore;
let fixture: Fixture;
beforeAll(async () => {
  store = await startOwnStore();
  fixture = await openFixture({ environment: store.environment });
});
afterAll(async () => {
  await fixture.close();
  await store.remove();
});

const capsule = async (id: string, broker: TestBroker = fixture.broker) => {
  const client = await broker.capsule(id);
  return { ...credentialsOf(client, id), token: client.token };
};
const code = (reply: { status: number; json: { error?: { code: string } } }) =>
  reply.json.error?.code ?? reply.status;
const lifeOne = async () => 1;
const silent = createLogger({ service: 'test', level: 'silent' });
const anchorFile = (id: string) => join(fixture.s3.directory, BUCKET, anchorKey('test', id));

describe('rows that somebody changed', () => {
  it('are refused for both Capsules if ciphertexts are swapped with all their columns; a third one continues', async () => {
    const [a, b, c] = [await capsule('swap-a'), await capsule('swap-b'), await capsule('swap-c')];
    const sets = [];
    for (const own of [a, b, c]) sets.push((await own.create('one', store.fields(), 0)).json.set_id);
    const undo = await backUp(fixture);
    await fixture.registry(
      `UPDATE broker.credential_set x SET envelope = y.envelope, kid = y.kid, generation = y.generation,
         endpoint = y.endpoint, bucket = y.bucket, fingerprint = y.fingerprint, verified_at = y.verified_at,
         created_at = y.created_at
       FROM broker.credential_set y WHERE x.set_id IN ($1, $2) AND y.set_id IN ($1, $2) AND x.set_id <> y.set_id`,
      [sets[0], sets[1]],
    );
    for (const [own, set] of [
      [a, sets[0]],
      [b, sets[1]],
    ] as const) {
      expect(code(await own.list())).toBe('custody_unavailable');
      expect(code(await own.select(set, 1))).toBe('custody_unavailable');
      expect(code(await own.rotate(set, store.fields(), 1))).toBe('custody_unavailable');
      expect(code(await own.delete(set, 1))).toBe('custody_unavailable');
    }
    expect((await c.list()).json.sets).toMatchObject([{ set_id: sets[2] }]);
    expect(fixture.broker.log.join('')).toMatch(/"custody":"damaged"/);
    const metrics = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
    expect(metrics).toMatch(/space_objectstore_custody_alarms_total\{alarm="damaged"\} [1-9]/);
    await undo();
    expect(code(await a.list())).toBe(200);
  });

  it('cannot lead a key to another endpoint, nor be hidden by deleting what refers to them', async () => {
    const own = await capsule('redirect');
    await own.create('one', store.fields(), 0);
    await own.create('two', store.fields(), 1);
    for (const damage of [
      "UPDATE broker.credential_set SET endpoint = 'https://evil.example.net' WHERE capsule_id = 'redirect'",
      "DELETE FROM broker.credential_set WHERE capsule_id = 'redirect' AND name = 'two'",
      "UPDATE broker.credential_inventory SET generation = generation + 1 WHERE capsule_id = 'redirect'",
      "UPDATE broker.credential_inventory SET head = repeat('0', 64) WHERE capsule_id = 'redirect'",
    ]) {
      const undo = await backUp(fixture);
      await fixture.registry(damage);
      expect(code(await own.list()), damage).toBe('custody_unavailable');
      await undo();
    }
    expect((await own.list()).json.sets).toHaveLength(2);
  });

  it('that store an answer for an idempotency key are not trusted either', async () => {
    const own = await capsule('answers');
    const [fields, key] = [store.fields(), 'a'.repeat(16)];
    await own.create('one', fields, 0, key);
    const undo = await backUp(fixture);
    await fixture.registry(
      "UPDATE broker.credential_request SET answer = replace(answer, 'one', 'two') WHERE capsule_id = 'answers'",
    );
    expect(code(await own.create('one', fields, 0, key))).toBe('custody_unavailable');
    await undo();
    expect(code(await own.create('one', fields, 0, key))).toBe(200);
  });
});

describe('a registry that was restored', () => {
  it('is refused only for the Capsules that changed since, until an administrator accepts it', async () => {
    const [changed, same] = [await capsule('changed'), await capsule('same')];
    const fields = store.fields();
    const { set_id } = (await changed.create('one', fields, 0)).json;
    await same.create('one', store.fields(), 0);
    const restore = await backUp(fixture);
    expect(code(await changed.rotate(set_id, fields, 1))).toBe(200);
    expect(code(await changed.rotate(set_id, fields, 2))).toBe(200);
    await restore();

    expect(code(await same.list())).toBe(200);
    expect(code(await changed.list())).toBe('custody_rollback');
    expect(code(await changed.select(set_id, 1))).toBe('custody_rollback');
    expect(code(await changed.rotate(set_id, fields, 1))).toBe('custody_rollback');
    const { custody, connections } = fixture.broker.context;
    const states = await custodyStates(custody, connections);
    expect(states.find((one) => one.capsule === 'changed')?.state).toBe('rollback');
    expect(states.find((one) => one.capsule === 'same')).toEqual({
      capsule: 'same',
      state: 'agree',
      sets: 1,
      inventory_generation: 1,
    });

    await expect(acceptCommand(custody, 'same', 'a'.repeat(32))).rejects.toThrow(/nothing to accept/);
    expect(await acceptCommand(custody, 'changed', 'a'.repeat(32))).toEqual({ accepted: 'changed' });
    const { json } = await changed.list();
    // The numbers are above everything that was ever answered, so no caller's old number matches by chance.
    expect(json.inventory_generation).toBe(4);
    expect(json.sets).toMatchObject([{ set_id, generation: 4 }]);
    for (const stale of [1, 2, 3])
      expect(code(await changed.rotate(set_id, fields, stale))).toBe('stale_generation');
    expect(code(await changed.rotate(set_id, fields, 4))).toBe(200);
    const audit = await fixture.registry(
      "SELECT trace_id, authority FROM broker.audit WHERE operation = 'administrator.custody.accept'",
    );
    expect(audit).toEqual([{ trace_id: 'a'.repeat(32), authority: 'administrator' }]);
  });

  it('is noticed also if it has no row of the Capsule, and if the bucket lost the anchor', async () => {
    const own = await capsule('forgotten');
    const { custody } = fixture.broker.context;
    const before = await backUp(fixture);
    const { set_id } = (await own.create('one', store.fields(), 0)).json;
    const after = await backUp(fixture);
    await before();
    expect(code(await own.list())).toBe('custody_rollback');
    await after();
    await own.select(set_id, 1);
    const anchor = readFileSync(anchorFile('forgotten'));
    rmSync(anchorFile('forgotten'));
    expect(code(await own.list())).toBe('custody_rollback');
    writeFileSync(anchorFile('forgotten'), '{"v":1}');
    expect(code(await own.list())).toBe('custody_rollback');
    writeFileSync(anchorFile('forgotten'), anchor);
    // The file has lost the server's own attributes, and so the version that a write compares with: the content counts.
    expect(code(await own.list())).toBe(200);
    rmSync(anchorFile('forgotten'));
    await acceptCommand(custody, 'forgotten', 'b'.repeat(32));
    expect((await own.list()).json).toMatchObject({ selected: set_id, inventory_generation: 3 });
  });

  it('is treated like a restored bucket: both are closed, and nothing is lost once it is accepted', async () => {
    const own = await capsule('newer');
    const fields = store.fields();
    const { custody } = fixture.broker.context;
    const { set_id } = (await own.create('one', fields, 0)).json;
    const first = readFileSync(anchorFile('newer'));
    await own.select(set_id, 1);
    await own.rotate(set_id, fields, 1);
    writeFileSync(anchorFile('newer'), first);
    expect(code(await own.list())).toBe('custody_rollback');
    expect(code(await own.select(null, 3))).toBe('custody_rollback');
    await acceptCommand(custody, 'newer', 'c'.repeat(32));
    expect((await own.list()).json).toMatchObject({ selected: set_id, inventory_generation: 4 });
    const values = await custody.reveal(await custody.read('newer', lifeOne), set_id);
    expect(values.secretAccessKey).toBe(fields['secret-access-key']);

    // One change behind is what a crash leaves, too: the registry is right, and the anchor follows.
    const behind = readFileSync(anchorFile('newer'));
    await own.select(null, 4);
    writeFileSync(anchorFile('newer'), behind);
    expect((await own.list()).json).toMatchObject({ selected: null, inventory_generation: 5 });
  });
});

describe('an incarnation that was edited in the registry', () => {
  it.each([
    ['a later one, so that what is selected would be an earlier incarnation’s', 1, 2],
    ['an earlier one', 2, 1],
  ])(
    '%s: gives access to nothing, and is reported as a rollback, without falling back to the Space’s bucket',
    async (_, from, to) => {
      const id = `life-${from}-${to}`;
      const first = await fixture.broker.capsule(id);
      for (let life = 1; life < from; life += 1) {
        expect((await first.dropAll(id)).status).toBe(200);
        expect((await fixture.broker.provisioner.finalize(id)).status).toBe(200);
      }
      const own = from === 1 ? credentialsOf(first, id) : await capsule(id);
      const { set_id, inventory_generation } = (await own.create('one', store.fields(), 0)).json;
      expect(code(await own.select(set_id, inventory_generation))).toBe(200);
      const edit = (life: number) =>
        fixture.registry('UPDATE broker.capsule SET life = $2 WHERE capsule_id = $1', [id, life]);
      const { custody, connections } = fixture.broker.context;
      await edit(to);
      // The principal is bound to the life that it was made for, so its requests do not come as far as custody.
      expect(code(await own.list())).toBe('forbidden');
      expect(code(await own.create('two', store.fields(), 0))).toBe('forbidden');
      expect(code(await own.select(null, inventory_generation + 1))).toBe('forbidden');
      await expect(custody.read(id, async () => to)).rejects.toThrow(/another incarnation/);
      expect(await custodyStates(custody, connections)).toContainEqual({ capsule: id, state: 'rollback' });
      await edit(from);
      expect((await own.list()).json.selected).toBe(set_id);
    },
  );
});

describe('the second checks', () => {
  it('an anchor overwrites only the version that was read', async () => {
    const { s3, close } = await openManagedStore(readConfig(fixture.mounts.environment), silent);
    const anchors = bucketAnchors(s3, 'barriers');
    const anchor = (revision: number) => ({ revision, generation: 1, high: 1, head: 'a'.repeat(64) });
    const first = await anchors.write('home', anchor(1), undefined);
    expect(await anchors.write('home', anchor(9), undefined)).toBeUndefined();
    const second = await anchors.write('home', anchor(2), first?.etag);
    expect(await anchors.write('home', anchor(9), first?.etag)).toBeUndefined();
    expect(await anchors.read('home')).toEqual(second);
    expect(second?.anchor).toEqual(anchor(2));
    await close();
  });

  it('rows are written only from the revision that was read', async () => {
    const own = await capsule('revision');
    await own.create('one', store.fields(), 0);
    await own.create('two', store.fields(), 1);
    const { custody, connections } = fixture.broker.context;
    const written = await custody.exclusively('revision', async (locked) => {
      const { session } = locked;
      const { stored } = await locked.load();
      if (stored === undefined) throw new Error('nothing stored');
      const next = custody.seals().sealInventory({ ...stored, revision: 9 });
      return [
        await writeInventory(session, { revision: 1, sets: [] }, next),
        await writeInventory(session, { revision: 0, sets: [] }, next),
      ];
    });
    expect(written).toEqual([false, false]);
    expect((await own.list()).json.sets).toHaveLength(2);
    expect((await custodyStates(custody, connections)).find((one) => one.capsule === 'revision')?.state).toBe(
      'agree',
    );
  });
});

describe('a Capsule whose rows are damaged', () => {
  const damage = async (id: string) => {
    const broker = await fixture.broker.capsule(id);
    const own = credentialsOf(broker, id);
    const { set_id } = (await own.create('one', store.fields(), 0)).json;
    await own.select(set_id, 1);
    await fixture.registry('UPDATE broker.credential_set SET generation = 9 WHERE set_id = $1', [set_id]);
    await fixture.registry(
      'UPDATE broker.credential_inventory SET revision = 2 ^ 62, life = 77 WHERE capsule_id = $1',
      [id],
    );
    expect(code(await own.list())).toBe('custody_unavailable');
    return { broker, own, set_id };
  };

  it('can still be dropped, and the id can be used again', async () => {
    const { broker } = await damage('damaged-drop');
    expect((await broker.dropAll('damaged-drop')).status).toBe(200);
    expect((await fixture.broker.provisioner.finalize('damaged-drop')).status).toBe(200);
    const next = await capsule('damaged-drop');
    const { json } = await next.list();
    expect(json).toMatchObject({ selected: null, sets: [] });
    expect(json.inventory_generation).toBeGreaterThan(2);
    expect(code(await next.create('one', store.fields(), json.inventory_generation))).toBe(200);
  });

  it('continues once an administrator discards its sets', async () => {
    const { own, set_id } = await damage('damaged-kept');
    const { custody } = fixture.broker.context;
    await discardCommand(custody, 'damaged-kept', 'd'.repeat(32));
    const { json } = await own.list();
    expect(json).toMatchObject({ selected: null, sets: [], inventory_generation: 3 });
    expect(code(await own.select(set_id, 3))).toBe('not_found');
    expect(code(await own.create('one', store.fields(), 3))).toBe(200);
  });
});

describe('a broker that is killed', () => {
  it.each(['custody:before-commit', 'custody:after-commit', 'custody:after-anchor', 'answer'])(
    'at %s leaves the old state or the new one, and the same request again has one answer',
    async (failpoint) => {
      const id = `killed-${failpoint.replace(':', '-')}`;
      const own = await capsule(id);
      const fields = store.fields();
      const { set_id } = (await own.create('one', fields, 0)).json;
      const key = randomBytes(16).toString('hex');
      const environment = { ...fixture.mounts.environment, ...store.environment };
      const doomed = await spawnBroker({ ...environment, FAILPOINT: failpoint });
      const dying = credentialsOf(client(doomed.url, own.token), id);
      await expect(dying.rotate(set_id, fields, 1, key)).rejects.toThrow();
      await doomed.gone;

      const between = await own.list();
      const moved = failpoint !== 'custody:before-commit';
      expect(between.json).toMatchObject({
        inventory_generation: moved ? 2 : 1,
        sets: [{ generation: moved ? 2 : 1 }],
      });
      const { custody, connections } = fixture.broker.context;
      expect(await custody.reveal(await custody.read(id, lifeOne), set_id)).toEqual({
        accessKeyId: fields['access-key-id'],
        secretAccessKey: fields['secret-access-key'],
      });
      const again = await own.rotate(set_id, fields, 1, key);
      expect(again.json).toMatchObject({ set_id, generation: 2, inventory_generation: 2 });
      expect((await own.rotate(set_id, fields, 1, key)).json).toMatchObject({ generation: 2 });
      const settled = { capsule: id, state: 'agree', sets: 1, inventory_generation: 2 };
      expect(await custodyStates(custody, connections)).toContainEqual(settled);
    },
  );

  it('behaves like an unavailable bucket: nothing is answered before it is anchored', async () => {
    const own = await capsule('away');
    const [fields, key] = [store.fields(), 'w'.repeat(16)];
    const { set_id } = (await own.create('one', fields, 0)).json;
    await fixture.s3.kill();
    expect(code(await own.rotate(set_id, fields, 1, key))).toBe('custody_unavailable');
    expect(code(await own.list())).toBe('custody_unavailable');
    await fixture.s3.start();
    expect((await own.rotate(set_id, fields, 1, key)).json).toMatchObject({ generation: 2 });
  });
});

describe('the keyring', () => {
  it('is rotated under load: everything is sealed with the new key, no number changes, and then the old key may be removed', async () => {
    const own = await capsule('keyring');
    const fields = store.fields();
    const { set_id } = (await own.create('one', fields, 0)).json;
    await own.select(set_id, 1);
    const before = (await own.list()).json;
    const old = JSON.parse(readFileSync(join(fixture.mounts.directory, 'keyring'), 'utf8')).keys.k1;
    const keys = { k1: old, k2: randomBytes(32).toString('base64url') };
    fixture.mounts.write('keyring', JSON.stringify({ primary: 'k2', keys }));
    const replica = await fixture.replica({ environment: store.environment });
    // The first broker has not loaded the new key yet, and finds it in a row.
    await replica.round('custody');
    let failed = 0;
    let stop = false;
    const load = Array.from({ length: 4 }, async () => {
      while (!stop) if ((await own.list()).status !== 200) failed += 1;
    });
    await fixture.broker.refreshFiles();
    await fixture.broker.round('custody');
    stop = true;
    await Promise.all(load);
    expect(failed).toBe(0);
    const { trace_id: _, ...after } = (await own.list()).json;
    expect(before).toMatchObject(after);
    const kids = await fixture.registry(
      'SELECT kid FROM broker.credential_set UNION SELECT head_kid FROM broker.credential_inventory',
    );
    expect(kids).toEqual([{ kid: 'k2' }]);
    const { custody } = fixture.broker.context;
    expect((await custody.reveal(await custody.read('keyring', lifeOne), set_id)).secretAccessKey).toBe(
      fields['secret-access-key'],
    );

    // Answers that are kept for idempotency keys still need the old one, for a day.
    fixture.mounts.write('keyring', JSON.stringify({ primary: 'k2', keys: { k2: keys.k2 } }));
    await fixture.broker.refreshFiles();
    await expect(fixture.replica({ environment: store.environment })).rejects.toThrow(
      /still in use are missing: k1/,
    );
    expect((await own.list()).status).toBe(200);
    await fixture.registry(
      "UPDATE broker.credential_request SET at = at - interval '2 days' WHERE kid = 'k1'",
    );
    await fixture.broker.round('custody');
    await fixture.broker.refreshFiles();
    const taken = fixture.broker.log.filter((line) => line.includes('"primary":"k2"'));
    expect(taken).toHaveLength(2);
    expect((await own.list()).status).toBe(200);
    // A key in use is never removed.
    fixture.mounts.write('keyring', JSON.stringify({ primary: 'k1', keys: { k1: old } }));
    await fixture.broker.refreshFiles();
    expect((await own.list()).status).toBe(200);
    fixture.mounts.write('keyring', JSON.stringify({ primary: 'k2', keys: { k2: keys.k2 } }));
    await fixture.broker.refreshFiles();
    await replica.stop();
  });

  it.each(['', '{"primary":"k1"', '{"primary":"k1","keys":{}}'])(
    '%j prevents the start of a broker',
    async (text) => {
      const path = fixture.mounts.write('bad-keyring', text);
      const environment = { ...store.environment, CUSTODY_KEYRING_FILE: path };
      await expect(fixture.replica({ environment })).rejects.toThrow(/^CUSTODY_KEYRING_FILE: /);
    },
  );
});

it('an administrator can list it in the container, which prints its usage', async () => {
  const own = await capsule('shown');
  await own.create('one', store.fields(), 0);
  const run = (...args: string[]) =>
    new Promise<{ code: unknown; out: string; err: string }>((resolve) => {
      const env = { PATH: process.env['PATH'], ...fixture.mounts.environment };
      const program = join(import.meta.dirname, '../../admin.ts');
      execFile(process.execPath, [program, ...args], { env }, (error, out, err) =>
        resolve({ code: error === null ? 0 : error.code, out, err }),
      );
    });
  const shown = await run('custody');
  expect(shown).toMatchObject({ code: 0, err: '' });
  expect(shown.out).toContain('{"capsule":"shown","state":"agree","sets":1,"inventory_generation":1}');
  expect(await run()).toMatchObject({
    code: 2,
    err: expect.stringContaining('restore accept|discard CAPSULE'),
  });
  expect(await run('restore', 'shown')).toMatchObject({ code: 2 });
  expect(await run('restore', 'accept', 'shown')).toMatchObject({
    code: 1,
    err: 'registry and anchor agree, so there is nothing to accept\n',
  });
});

it('a change is effective on every replica before it is answered: revoked keys are no longer used', async () => {
  const own = await capsule('revoked');
  const replica = await fixture.replica({ environment: store.environment });
  const replicas = [fixture.broker, replica].map(({ context }) => context.custody);
  const { stale, changes } = await checkRevocation({
    ...{ capsule: 'revoked', own, replicas },
    fields: store.fields(),
    wanted: 300,
  });
  expect(stale).toBe(0);
  expect(changes.rotate).toBeGreaterThan(0);
  await replica.stop();
});
