import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { portOf } from '@space/broker-kit';
import { CREDENTIALS } from '@space/contracts/objectstore';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../../testing/eventually.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { credentialsOf, type OwnStore, startOwnStore } from './testing/byok.ts';

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

const capsule = async (id: string) => credentialsOf(await fixture.broker.capsule(id), id);

describe('a credential set', () => {
  it('is created, listed, rotated, selected and deleted, and its values are in no answer', async () => {
    const own = await capsule('life');
    expect((await own.list()).json).toMatchObject({ inventory_generation: 0, selected: null, sets: [] });
    const fields = store.fields();
    const created = await own.create('archive', fields, 0);
    expect(created.status).toBe(200);
    expect(CREDENTIALS['capsule.credential.create'].response.safeParse(created.json).error).toBeUndefined();
    expect(created.json).toMatchObject({
      name: 'archive',
      form_version: 1,
      generation: 1,
      selected: false,
      endpoint_host: new URL(fields.endpoint).host,
      region: fields.region,
      bucket: fields.bucket,
      addressing: 'path',
      access_key_fingerprint: expect.stringMatching(/^fp_[0-9a-f]{16}$/),
      rotated_at: null,
      state: 'active',
      inventory_generation: 1,
    });
    const { set_id } = created.json;
    const selected = await own.select(set_id, 1);
    expect(selected.json).toMatchObject({ selected: set_id, inventory_generation: 2 });
    const rotated = await own.rotate(set_id, fields, 1);
    expect(rotated.json).toMatchObject({ set_id, generation: 2, selected: true, inventory_generation: 3 });
    expect(rotated.json.rotated_at).toMatch(/Z$/);
    const listed = await own.list();
    expect(CREDENTIALS['capsule.credential.list'].response.safeParse(listed.json).error).toBeUndefined();
    expect(listed.json).toMatchObject({
      inventory_generation: 3,
      selected: set_id,
      sets: [{ set_id, generation: 2 }],
    });
    expect(await own.delete(set_id, 2)).toMatchObject({
      status: 409,
      json: { error: { code: 'credential_selected' } },
    });
    expect((await own.select(null, 3)).json).toMatchObject({ selected: null, inventory_generation: 4 });
    const deleted = await own.delete(set_id, 2);
    expect(deleted.json).toMatchObject({ deleted: set_id, inventory_generation: 5 });
    expect(deleted.json.already_absent).toBeUndefined();
    expect((await own.delete(set_id, 2)).json).toMatchObject({
      deleted: set_id,
      already_absent: true,
      inventory_generation: 5,
    });
    expect((await own.delete(set_id, 1)).json.error.code).toBe('stale_generation');
    expect((await own.list()).json).toMatchObject({ inventory_generation: 5, sets: [] });
    for (const reply of [created, selected, rotated, listed, deleted])
      for (const secret of [fields['access-key-id'], fields['secret-access-key']])
        expect(reply.text).not.toContain(secret);
  });

  it('leaves nothing in the bucket of its verification', async () => {
    const own = await capsule('tidy');
    const fields = store.fields();
    expect((await own.create('one', fields, 0)).status).toBe(200);
    const { readdirSync } = await import('node:fs');
    const left = readdirSync(`${store.server.directory}/${fields.bucket}`, {
      recursive: true,
      withFileTypes: true,
    });
    expect(left.filter((entry) => entry.isFile()).map(({ name }) => name)).toEqual([]);
  });

  it('cannot be moved elsewhere by a rotation', async () => {
    const own = await capsule('moving');
    const { set_id } = (await own.create('one', store.fields(), 0)).json;
    expect((await own.rotate(set_id, store.fields(), 1)).json.error.code).toBe('invalid_request');
  });

  it('has a unique name in the Capsule, which may have at most sixteen', async () => {
    const own = await capsule('many');
    const fields = store.fields();
    for (let i = 0; i < 16; i += 1) expect((await own.create(`n${i}`, fields, i)).status).toBe(200);
    expect((await own.create('n3', fields, 16)).json.error.code).toBe('already_exists');
    expect((await own.create('n16', fields, 16)).json.error.code).toBe('quota_exceeded');
  });
});

describe('a stale change', () => {
  it('is refused with any wrong generation, and nothing changes', async () => {
    const own = await capsule('stale');
    const fields = store.fields();
    const { set_id } = (await own.create('one', fields, 0)).json;
    const replies = [
      await own.create('two', fields, 0),
      await own.create('two', fields, 2),
      await own.rotate(set_id, fields, 2),
      await own.select(set_id, 0),
      await own.delete(set_id, 2),
    ];
    for (const reply of replies)
      expect(reply).toMatchObject({ status: 409, json: { error: { code: 'stale_generation' } } });
    expect((await own.list()).json).toMatchObject({ inventory_generation: 1, sets: [{ generation: 1 }] });
  });

  it('of many at once: exactly one wins, over two replicas', async () => {
    const own = await capsule('race');
    const replica = await fixture.replica({ environment: store.environment });
    const client = await fixture.broker.capsule('race-two');
    const pair = [credentialsOf(client, 'race-two'), credentialsOf(replica.as(client.token), 'race-two')];
    const fields = store.fields();
    const { set_id } = (await pair[0]!.create('one', fields, 0)).json;
    const codes = await Promise.all(
      Array.from({ length: 64 }, async (_, i) => {
        const rotate = () => pair[i % 2]!.rotate(set_id, fields, 1, `rotation-${i}`.padEnd(20, '-'));
        const attempt = () => rotate().catch(() => undefined);
        let reply = await attempt();
        // A machine that is too busy loses connections, or has a replica ask to be asked again: the key makes it the same request.
        while (reply === undefined || (reply.status === 503 && reply.headers.has('retry-after')))
          reply = await attempt();
        return reply.status === 200 ? 'ok' : reply.json.error.code;
      }),
    );
    expect(codes.filter((code) => code !== 'stale_generation')).toEqual(['ok']);
    expect((await pair[1]!.list()).json).toMatchObject({
      inventory_generation: 2,
      sets: [{ generation: 2 }],
    });
    expect((await own.list()).json.inventory_generation).toBe(0);
    await replica.stop();
  });
});

describe('an idempotency key', () => {
  it('returns the same answer again, also to many at once and after later changes', async () => {
    const own = await capsule('again');
    const fields = store.fields();
    const key = 'k'.repeat(20);
    const replies = await Promise.all(Array.from({ length: 8 }, () => own.create('one', fields, 0, key)));
    const { trace_id: _, ...first } = replies[0]!.json;
    for (const { json } of replies) expect(json).toMatchObject(first);
    expect((await own.rotate(first.set_id, fields, 1)).status).toBe(200);
    expect((await own.create('one', fields, 0, key)).json).toMatchObject(first);
    expect((await own.list()).json.sets).toHaveLength(1);
  });

  it('returns the answer of the same request also to one whose own verification failed meanwhile', async () => {
    const own = await capsule('meanwhile');
    const fields = store.fields();
    const connections: Socket[] = [];
    const between = createServer((socket) => {
      connections.push(socket.on('error', () => undefined));
      if (connections.length === 1) return;
      const on = connect(Number(new URL(fields.endpoint).port)).on('error', () => undefined);
      socket.pipe(on).pipe(socket);
    });
    await once(between.listen(0, '127.0.0.1'), 'listening');
    const there = { ...fields, endpoint: `https://s3.tenant.example:${portOf(between)}` };
    const key = 'm'.repeat(20);
    const held = own.create('one', there, 0, key);
    await eventually(() => connections.length === 1, { what: 'its verification to begin' });
    const { trace_id: _, ...first } = (await own.create('one', there, 0, key)).json;
    expect(first.name).toBe('one');
    between.close();
    for (const connection of connections) connection.destroy();
    expect((await held).json).toMatchObject(first);
  });

  it('is not valid for another request', async () => {
    const own = await capsule('reuse');
    const fields = store.fields();
    const key = 'r'.repeat(20);
    await own.create('one', fields, 0, key);
    expect((await own.create('two', fields, 0, key)).json.error.code).toBe('conflict');
    const other = { ...fields, 'secret-access-key': `${fields['secret-access-key']}x` };
    expect((await own.create('one', other, 0, key)).json.error.code).toBe('conflict');
  });
});

describe('another Capsule', () => {
  it('sees and changes nothing, and gets the same answer whatever it names', async () => {
    const [mine, theirs] = ['mine', 'theirs'];
    const own = await capsule(mine);
    const foreign = await fixture.broker.capsule(theirs);
    const { set_id } = (await own.create('one', store.fields(), 0)).json;
    const intruder = credentialsOf(foreign, mine);
    const replies = [
      await intruder.list(),
      await intruder.create('two', store.fields(), 1),
      await intruder.rotate(set_id, store.fields(), 1),
      await intruder.select(set_id, 1),
      await intruder.delete(set_id, 1),
    ];
    const shapes = replies.map(({ status, text, json }) => [status, text.replace(json.trace_id, '')].join());
    expect(new Set(shapes)).toEqual(new Set(['403,{"error":{"code":"forbidden"},"trace_id":""}']));
    const inside = credentialsOf(foreign, theirs);
    for (const reply of [
      await inside.rotate(set_id, store.fields(), 1),
      await inside.select(set_id, 0),
      await inside.delete(set_id, 1),
    ])
      expect(reply).toMatchObject({ status: 404, json: { error: { code: 'not_found' } } });
    expect((await own.list()).json).toMatchObject({
      inventory_generation: 1,
      sets: [{ set_id, generation: 1 }],
    });
  });

  it('with a dropped id finds nothing of the previous one, and no number is reused', async () => {
    const client = await fixture.broker.capsule('reborn');
    const own = credentialsOf(client, 'reborn');
    const { set_id } = (await own.create('one', store.fields(), 0)).json;
    await own.select(set_id, 1);
    expect((await client.dropAll('reborn')).status).toBe(200);
    expect((await own.list()).status).toBe(403);
    const rows = await fixture.registry<{ n: number }>(
      "SELECT count(*)::int AS n FROM broker.credential_set WHERE capsule_id = 'reborn'",
    );
    expect(rows).toEqual([{ n: 0 }]);
    expect((await fixture.broker.provisioner.finalize('reborn')).status).toBe(200);
    const next = await capsule('reborn');
    const listed = (await next.list()).json;
    expect(listed).toMatchObject({ selected: null, sets: [] });
    expect(listed.inventory_generation).toBeGreaterThan(2);
    expect((await next.select(set_id, listed.inventory_generation)).status).toBe(404);
    expect((await next.create('one', store.fields(), listed.inventory_generation)).status).toBe(200);
  });
});

describe('a candidate', () => {
  it.each<[string, (f: ReturnType<OwnStore['fields']>) => Partial<typeof f>, string]>([
    ['a wrong secret', () => ({ 'secret-access-key': 'wrong-secret-access-key' }), 'auth'],
    ['an unknown key', () => ({ 'access-key-id': 'UNKNOWNKEY' }), 'auth'],
    ['a bucket that is not there', () => ({ bucket: 'nowhere-to-be-found' }), 'bucket'],
    ['a name that nobody knows', () => ({ endpoint: 'https://nobody.invalid' }), 'unreachable'],
    ['a name inside the cluster', () => ({ endpoint: 'https://kubernetes.default.svc' }), 'unreachable'],
  ])('with %s is refused and not stored', async (what, change, check) => {
    const id = `bad-${what.replaceAll(' ', '-')}`.slice(0, 40).replace(/-$/, '');
    const own = await capsule(id);
    const fields = store.fields();
    const reply = await own.create('one', { ...fields, ...change(fields) }, 0);
    expect(reply).toMatchObject({ status: 422, json: { error: { code: 'verification_failed', check } } });
    expect((await own.list()).json).toMatchObject({ inventory_generation: 0, sets: [] });
  });

  it.each<[string, Record<string, unknown>]>([
    ['an address for a host', { endpoint: 'https://127.0.0.1' }],
    ['http', { endpoint: 'http://s3.tenant.example' }],
    ['one label', { endpoint: 'https://localhost' }],
    ['user information', { endpoint: 'https://user@s3.tenant.example' }],
    ['a path', { endpoint: 'https://s3.tenant.example/x' }],
    ['a line break in the secret', { 'secret-access-key': 'abcdefgh\r\nx: y' }],
    ['a session token', { 'session-token': 'x' }],
    ['a bucket with two dots', { bucket: 'a..b' }],
    ['a number', { region: 1 }],
  ])('with %s is refused without a verification', async (_, change) => {
    const own = await capsule(`form-${fixture.broker.log.length}`);
    const fields = { ...store.fields(), ...change } as ReturnType<OwnStore['fields']>;
    expect((await own.create('one', fields, 0)).json.error).toEqual({ code: 'invalid_request' });
  });

  it('is one of a limited number in each Capsule', async () => {
    const strict = await fixture.replica({
      environment: { ...store.environment, BYOK_VERIFICATIONS_PER_MINUTE: '2' },
    });
    const client = await fixture.broker.capsule('eager');
    const own = credentialsOf(strict.as(client.token), 'eager');
    const fields = { ...store.fields(), 'secret-access-key': 'wrong-secret-access-key' };
    for (let i = 0; i < 2; i += 1) expect((await own.create('one', fields, 0)).status).toBe(422);
    // On a busy machine the two may take the half minute that it takes to have another one.
    const reply = await eventually(
      async () => {
        const next = await own.create('one', fields, 0);
        return next.status !== 422 && next;
      },
      { what: 'no verification to be left' },
    );
    expect(reply).toMatchObject({ status: 429, json: { error: { code: 'rate_limited' } } });
    expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0);
    await strict.stop();
  });
});
