import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { BUCKET, type Client, type Reply } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** Drops, interrupted at every step, against a real store whose objects are files that the test can see. */

let fixture: Fixture;
let armed = '';
let count = 0;

beforeAll(async () => {
  fixture = await openFixture({
    failpoint: (name) => {
      if (name !== armed) return;
      armed = '';
      throw new Error(`failpoint ${name}`);
    },
  });
});
afterAll(() => fixture.close());
beforeEach(() => {
  count += 1;
});

const file = (key: string) => join(fixture.s3.directory, BUCKET, key);
function put(key: string) {
  mkdirSync(dirname(file(key)), { recursive: true });
  writeFileSync(file(key), 'object');
}
function objectsUnder(place: string): number {
  const directory = file(place);
  if (!existsSync(directory)) return 0;
  return readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .length;
}

async function placesOf(capsule: string) {
  const [row] = await fixture.registry<{ place: string }>(
    'SELECT place FROM broker.store WHERE capsule_id = $1',
    [capsule],
  );
  const workloads = await fixture.registry<{ app: string; place: string }>(
    'SELECT app_id AS app, place FROM broker.workload WHERE capsule_id = $1',
    [capsule],
  );
  const whole = row?.place ?? '';
  return { whole, of: Object.fromEntries(workloads.map(({ app, place }) => [app, place])) };
}

/** A Capsule of two workloads with objects of their own and shared ones. */
async function prepare() {
  const capsule = `drop-${count}`;
  const principal = await fixture.broker.capsule(capsule);
  await fixture.broker.workload(principal, capsule, 'one');
  await fixture.broker.workload(principal, capsule, 'two');
  const places = await placesOf(capsule);
  const one = places.of['one'] ?? '';
  const two = places.of['two'] ?? '';
  for (let i = 0; i < 3; i += 1) for (const place of [one, two, `${places.whole}s/`]) put(`${place}k${i}`);
  return { capsule, principal, one, two, whole: places.whole };
}

async function failThenRetry(failpoint: string, act: () => Promise<Reply>): Promise<Reply> {
  armed = failpoint;
  expect((await act()).status).toBe(500);
  return act();
}

describe('the drop of a workload', () => {
  it('deletes its objects and nobody else’s, retires its principal and can be proved again', async () => {
    const { capsule, principal, one, two, whole } = await prepare();
    expect((await principal.drop(capsule, 'one')).json).toMatchObject({ dropped: 'one' });
    expect([objectsUnder(one), objectsUnder(two), objectsUnder(`${whole}s/`)]).toEqual([0, 3, 3]);
    expect((await principal.drop(capsule, 'one')).json).toMatchObject({
      dropped: 'one',
      already_absent: true,
    });
    expect((await principal.drop(capsule, 'never')).status).toBe(404);
  });

  it('leaves nothing that its successor could see', async () => {
    const { capsule, principal, one } = await prepare();
    await principal.drop(capsule, 'one');
    await fixture.broker.workload(principal, capsule, 'one');
    const places = await placesOf(capsule);
    expect(places.of['one']).not.toBe(one);
  });

  it('retires its principal permanently', async () => {
    const { capsule, principal } = await prepare();
    const token = newToken('osw').reveal();
    await principal.create(capsule, 'three', token);
    await principal.drop(capsule, 'three');
    expect((await principal.create(capsule, 'three', token)).status).toBe(409);
  });

  it.each(['drop:after-cut', 'drop:after-sweep', 'drop:before-commit', 'answer'])(
    'interrupted at %s, is completed by a retry',
    async (failpoint) => {
      const { capsule, principal, one } = await prepare();
      const reply = await failThenRetry(failpoint, () => principal.drop(capsule, 'one'));
      expect(reply.json).toMatchObject({ dropped: 'one' });
      expect(reply.json.already_absent).toBe(failpoint === 'answer' ? true : undefined);
      expect(objectsUnder(one)).toBe(0);
    },
  );

  it('that is not completed is completed by the upkeep', async () => {
    const { capsule, principal, one } = await prepare();
    armed = 'drop:after-cut';
    await principal.drop(capsule, 'one');
    await fixture.registry(
      `UPDATE broker.workload SET changed_at = changed_at - interval '1 hour' WHERE state = 'dropping'`,
    );
    await fixture.broker.round('pending drops');
    expect(objectsUnder(one)).toBe(0);
    expect((await principal.drop(capsule, 'one')).json.already_absent).toBe(true);
  });
});

describe('the drop of a Capsule', () => {
  const end = async (capsule: string, principal: Client, whole: string) => {
    expect(objectsUnder(whole)).toBe(0);
    expect((await principal.dropAll(capsule)).status).toBe(403);
    expect((await fixture.broker.provisioner.finalize(capsule)).json.finalized).toBe(true);
    expect((await fixture.broker.provisioner.finalize(capsule)).json.finalized).toBe(true);
  };

  it('deletes all its objects and names its workloads', async () => {
    const { capsule, principal, whole } = await prepare();
    expect((await fixture.broker.provisioner.finalize(capsule)).status).toBe(409);
    expect((await principal.dropAll(capsule)).json.dropped).toEqual(['one', 'two']);
    await end(capsule, principal, whole);
  });

  it.each(['capsule-drop:after-cut', 'capsule-drop:after-sweep', 'capsule-drop:before-commit'])(
    'interrupted at %s, is completed by a retry that names the same workloads',
    async (failpoint) => {
      const { capsule, principal, whole } = await prepare();
      const reply = await failThenRetry(failpoint, () => principal.dropAll(capsule));
      expect(reply.json.dropped).toEqual(['one', 'two']);
      await end(capsule, principal, whole);
    },
  );

  it('removes the folders without objects that failed writes have left', async () => {
    const { capsule, principal, one, whole } = await prepare();
    for (const left of [`${one}a/b/c`, `${one}a/d`, `${one}e`, `${whole}s/f`])
      mkdirSync(file(left), { recursive: true });
    await principal.dropAll(capsule);
    expect(existsSync(file(whole))).toBe(false);
  });

  it('frees its id for a new incarnation, with another prefix and other principals', async () => {
    const { capsule, principal, whole } = await prepare();
    await principal.dropAll(capsule);
    await fixture.broker.provisioner.finalize(capsule);
    expect((await fixture.broker.provisioner.provision(capsule, principal.token ?? '')).status).toBe(409);
    const next = await fixture.broker.capsule(capsule);
    // What an earlier incarnation dropped is no proof for this one.
    expect((await next.drop(capsule, 'one')).status).toBe(404);
    await fixture.broker.workload(next, capsule, 'one');
    expect((await placesOf(capsule)).whole).not.toBe(whole);
    expect((await next.drop(capsule, 'one')).json.already_absent).toBeUndefined();
    expect((await next.drop(capsule, 'one')).json.already_absent).toBe(true);
    expect((await next.drop(capsule, 'two')).status).toBe(404);
  });

  it('allows its principal only to complete it', async () => {
    const { capsule, principal } = await prepare();
    armed = 'capsule-drop:after-cut';
    await principal.dropAll(capsule);
    expect((await principal.create(capsule, 'late', newToken('osw').reveal())).status).toBe(403);
    expect((await principal.drop(capsule, 'one')).status).toBe(403);
    expect((await principal.dropAll(capsule)).status).toBe(200);
  });

  it('is not undone by a write in progress', async () => {
    const { capsule, principal, whole, one } = await prepare();
    await principal.dropAll(capsule);
    put(`${one}late`);
    await fixture.registry(`UPDATE broker.dead_place SET dead_at = dead_at - interval '2 hours'`);
    await fixture.broker.round('dead places');
    expect(objectsUnder(whole)).toBe(0);
    const left = () => fixture.registry('SELECT 1 FROM broker.dead_place WHERE place = $1', [whole]);
    expect(await left()).toHaveLength(1);
    await fixture.registry(
      `UPDATE broker.dead_place SET dead_at = dead_at - interval '1 day', swept_at = swept_at - interval '1 day'`,
    );
    await fixture.broker.round('dead places');
    expect(await left()).toHaveLength(0);
  });
});

it('with an unavailable store, access still ends and the drop is completed later', async () => {
  const { capsule, principal, one } = await prepare();
  await fixture.s3.kill();
  const refused = await principal.drop(capsule, 'one');
  expect([502, 503, 504]).toContain(refused.status);
  await fixture.s3.start();
  expect((await principal.drop(capsule, 'one')).json).toMatchObject({ dropped: 'one' });
  expect(objectsUnder(one)).toBe(0);
});
