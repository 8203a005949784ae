import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import type { Fields } from '@space/contracts/objectstore';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { GRANT_OPERATIONS, type GrantClaims } from '../../../../manifests/driver/grant.ts';
import { eventually } from '../../../../testing/eventually.ts';
import { BUCKET } from '../../testing/broker.ts';
import { type ByokFixture, grantOf, type Home, openByokFixture } from './testing/byok-fixture.ts';
import { newIssuer } from './testing/issuer.ts';

let fixture: ByokFixture;
beforeAll(async () => {
  fixture = await openByokFixture();
});
afterAll(() => fixture?.close());

/** The files of a bucket, without what the servers and the custody keep for themselves. */
function objectsIn(directory: string, bucket: string, part: string): string[] {
  return readdirSync(join(directory, bucket), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.startsWith(part))
    .map(({ name }) => name);
}
const inSpace = (part: string) => objectsIn(fixture.s3.directory, BUCKET, part);
const inOwn = (fields: Fields, part: string) => objectsIn(fixture.own.server.directory, fields.bucket, part);
const codeOf = (answer: { status: number; json?: { error?: { code: string } } }) =>
  `${answer.status} ${answer.json?.error?.code ?? 'ok'}`;

interface Selected {
  readonly home: Home;
  readonly fields: Fields;
  readonly set: { readonly set_id: string; readonly generation: number };
}

/** A Capsule that selected a set of its own. */
async function selected(capsule: string): Promise<Selected> {
  const home = await fixture.home(capsule);
  const fields = fixture.own.fields();
  const { json } = await home.credentials.create('mine', fields, 0);
  expect((await home.credentials.select(json.set_id, 1)).status).toBe(200);
  return { home, fields, set: { set_id: json.set_id, generation: 1 } };
}

describe('a Capsule’s own server that answers no list', () => {
  test('is sent two of its lists at once, and lists of others are sent and answered in the meantime', async () => {
    const [one, two, plain] = [
      await selected('stuck'),
      await selected('beside'),
      await fixture.home('inside'),
    ];
    const list = async ({ home, set }: Selected) =>
      home.at(fixture.broker, await grantOf(fixture.issuer, home, set)).call('GET', '/v1/objects/data');
    const places = async () => {
      const text = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
      const of = (state: string) =>
        Number(new RegExp(`^space_objectstore_places{.*own-lists.*${state}.*} (.*)$`, 'm').exec(text)?.[1]);
      return { held: of('held'), waiting: of('waiting') };
    };
    // Their connections are open by then: a server that has stopped accepts none, which is given up after some seconds.
    const before = [...(await Promise.all([one, one].map(list))), await list(two)];
    expect(before.map(({ status }) => status)).toEqual([200, 200, 200]);
    process.kill(fixture.own.server.pid, 'SIGSTOP');
    try {
      const lists = [one, one, one].map(list);
      await vi.waitFor(async () => expect(await places()).toEqual({ held: 2, waiting: 1 }), 240_000);
      lists.push(list(two));
      await vi.waitFor(async () => expect(await places()).toEqual({ held: 3, waiting: 1 }), 240_000);
      expect((await plain.at(fixture.broker).call('GET', '/v1/objects/data')).status).toBe(200);
      process.kill(fixture.own.server.pid, 'SIGCONT');
      expect((await Promise.all(lists)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      await vi.waitFor(async () => expect(await places()).toEqual({ held: 0, waiting: 0 }), 240_000);
    } finally {
      process.kill(fixture.own.server.pid, 'SIGCONT');
    }
  });
});

describe('a Capsule that has selected nothing', () => {
  test('stores its objects in the Space’s bucket, without a grant', async () => {
    const home = await fixture.home('plain');
    const one = home.at(fixture.broker);
    expect(codeOf(await one.put('plain.txt', 'text'))).toBe('200 ok');
    expect((await one.get('plain.txt')).text).toBe('text');
    expect(inSpace('plain.txt')).toHaveLength(1);
  });
});

describe('a Capsule that has selected a set of its own', () => {
  test('stores its objects only in that bucket, through both protocols', async () => {
    const { home, fields, set } = await selected('own');
    const grant = await grantOf(fixture.issuer, home, set);
    const one = home.at(fixture.broker, grant);
    expect(codeOf(await one.put('own/a.txt', 'text', { 'x-object-meta-colour': 'blue' }))).toBe('200 ok');
    const read = await one.get('own/a.txt');
    expect([read.text, read.headers.get('x-object-meta-colour')]).toEqual(['text', 'blue']);
    const listed = await one.call('GET', '/v1/objects/data?prefix=own/');
    expect(listed.json.objects.map(({ key }: { key: string }) => key)).toEqual(['own/a.txt']);
    expect(
      codeOf(await one.post('/v1/copies/shared', { from_bucket: 'data', from: 'own/a.txt', to: 'own-b' })),
    ).toBe('200 ok');

    const keys = await one.call('GET', '/v1/s3/credentials');
    const s3 = new S3Client({
      endpoint: fixture.broker.dataUrl,
      region: 'any',
      forcePathStyle: true,
      credentials: {
        accessKeyId: keys.json.AccessKeyId,
        secretAccessKey: keys.json.SecretAccessKey,
        sessionToken: grant,
      },
    });
    await s3.send(new PutObjectCommand({ Bucket: 'data', Key: 'own-c', Body: 'sdk' }));
    const got = await s3.send(new GetObjectCommand({ Bucket: 'data', Key: 'own-c' }));
    expect(await got.Body?.transformToString()).toBe('sdk');
    const page = await s3.send(new ListObjectsV2Command({ Bucket: 'data' }));
    expect(page.Contents?.map(({ Key }) => Key)).toEqual(['own-c', 'own/a.txt']);
    s3.destroy();

    expect(inOwn(fields, 'own-').sort()).toEqual(['own-b', 'own-c']);
    expect(inOwn(fields, 'a.txt')).toHaveLength(1);
    expect(inSpace('own-')).toEqual([]);
    expect(codeOf(await one.post('/v1/deletions/data', { keys: ['own-c', 'own/a.txt'] }))).toBe('200 ok');
    expect(codeOf(await one.get('own-c'))).toBe('404 not_found');
  });

  test('stores large objects in parts, which do not count against the Space’s quota', async () => {
    const { home, fields, set } = await selected('parts');
    const one = home.at(fixture.broker, await grantOf(fixture.issuer, home, set));
    const begun = await one.post('/v1/uploads/data', { key: 'large-one' });
    const path = `/v1/uploads/data/${begun.json.upload_id}`;
    const part = await one.call('PUT', `${path}/1`, { body: Buffer.alloc(1_000, 'x') });
    // It is refused without the grant, and not found in the Space's own bucket.
    expect(codeOf(await home.at(fixture.broker).call('GET', path))).toBe('409 stale_grant');
    const narrow = await grantOf(fixture.issuer, home, set, {
      allow: [{ bucket: 'data', prefix: 'large/', operations: [...GRANT_OPERATIONS] }],
    });
    expect(codeOf(await home.at(fixture.broker, narrow).call('GET', path))).toBe('403 forbidden');
    const done = await one.post(`${path}/complete`, { parts: [{ number: 1, etag: part.json.etag }] });
    expect(codeOf(done)).toBe('200 ok');
    expect(inOwn(fields, 'large-one')).toHaveLength(1);
    const rows = await fixture.registry(
      `SELECT 1 FROM broker.object_usage u JOIN broker.store s USING (place)
       WHERE s.capsule_id = 'parts' AND u.counted + u.written > 0`,
    );
    expect(rows).toEqual([]);
  });

  test('has separate uploads for each bucket', async () => {
    const home = await fixture.home('moved');
    const begun = await home.at(fixture.broker).post('/v1/uploads/data', { key: 'moved' });
    const { json } = await home.credentials.create('mine', fixture.own.fields(), 0);
    await home.credentials.select(json.set_id, 1);
    const one = home.at(fixture.broker, await grantOf(fixture.issuer, home, json));
    const path = `/v1/uploads/data/${begun.json.upload_id}`;
    expect(codeOf(await one.call('PUT', `${path}/1`, { body: 'x' }))).toBe('404 not_found');
    const own = await one.post('/v1/uploads/data', { key: 'moved' });
    await home.credentials.select(null, 2);
    const bare = home.at(fixture.broker);
    expect(codeOf(await bare.call('GET', `/v1/uploads/data/${own.json.upload_id}`))).toBe('404 not_found');
    expect(codeOf(await bare.call('DELETE', path))).toBe('200 ok');
    // Its Capsule goes: the broker ends its own row, and asks nothing of a bucket that is not the Space's.
    expect((await home.owner.dropAll('moved')).status).toBe(200);
    const rows = await fixture.registry(`SELECT 1 FROM broker.object_upload WHERE id = $1`, [
      own.json.upload_id,
    ]);
    expect(rows).toEqual([]);
  });
});

describe('a request is refused before anything is read or written', () => {
  let mine: Selected;
  beforeAll(async () => {
    mine = await selected('refused');
  });

  async function put(grant: string | undefined, key = 'refused-file'): Promise<string> {
    const answer = await mine.home.at(fixture.broker, grant).put(key, 'text');
    expect(inSpace('refused-')).toEqual([]);
    if (answer.status !== 200) expect(inOwn(mine.fields, 'refused-')).toEqual([]);
    return codeOf(answer);
  }
  const signed = (change: Partial<GrantClaims>) => grantOf(fixture.issuer, mine.home, mine.set, change);
  const seconds = () => Math.floor(Date.now() / 1_000);

  test('without a grant', async () => expect(await put(undefined)).toBe('409 stale_grant'));

  test('with a forged grant, or other text', async () => {
    const forged = await grantOf(newIssuer(), mine.home, mine.set);
    for (const text of [forged, 'x', `${forged}x`, forged.replace(/\.[^.]*$/, '.')])
      expect(await put(text)).toBe('403 forbidden');
  });

  test('with an expired grant, or one of tomorrow', async () => {
    const now = seconds();
    expect(await put(await signed({ iat: now - 800, exp: now - 100 }))).toBe('409 stale_grant');
    expect(await put(await signed({ iat: now + 86_400, exp: now + 86_500 }))).toBe('403 forbidden');
  });

  test('with a grant for another audience, Space, Capsule, Assistant or principal', async () => {
    const other = await selected('other');
    for (const change of [
      { aud: 'platform.postgres/v1' as never },
      { space: 'elsewhere' },
      { capsule: 'other' },
      { app: 'other' },
      { cnf: other.home.about.cnf },
    ])
      expect(await put(await signed(change))).toBe('403 forbidden');
    // The neighbour's own, which is good in the neighbour's hands.
    const theirs = await grantOf(fixture.issuer, other.home, other.set);
    expect(codeOf(await other.home.at(fixture.broker, theirs).put('theirs', 'x'))).toBe('200 ok');
    expect(await put(theirs)).toBe('403 forbidden');
  });

  test('with a grant for a set of another Capsule, although the operator has signed it', async () => {
    const third = await selected('third');
    expect(await put(await signed({ ref: third.set.set_id }))).toBe('409 stale_grant');
  });

  test('with a grant for another generation, earlier or later', async () => {
    expect(await put(await signed({ gen: 2 }))).toBe('409 stale_grant');
  });

  test('for a key or an operation that the grant does not name', async () => {
    const narrow = await signed({
      allow: [{ bucket: 'data', prefix: 'a/b/', operations: ['object.get', 'object.put'] }],
    });
    const one = mine.home.at(fixture.broker, narrow);
    expect(await put(narrow, 'a/bc/refused-file')).toBe('403 forbidden');
    expect(codeOf(await one.put('a/b/kept', 'text'))).toBe('200 ok');
    expect((await one.get('a/b/kept')).text).toBe('text');
    for (const [method, path] of [
      ['DELETE', '/v1/objects/data/a/b/kept'],
      ['GET', '/v1/objects/data?prefix=a/b/'],
      ['GET', '/v1/objects/data'],
      ['GET', '/v1/objects/shared/a/b/kept'],
    ] as const)
      expect(codeOf(await one.call(method, path))).toBe('403 forbidden');
    expect(codeOf(await one.post('/v1/copies/data', { from: 'a/b/kept', to: 'a/bc' }))).toBe('403 forbidden');
    expect(codeOf(await one.post('/v1/deletions/data', { keys: ['a/b/kept'] }))).toBe('403 forbidden');
    expect(codeOf(await one.post('/v1/uploads/data', { key: 'a/c' }))).toBe('403 forbidden');
  });

  test('with two grants', async () => {
    const grant = await signed({});
    const response = await fetch(`${fixture.broker.dataUrl}/v1/objects/data/x`, {
      headers: [
        ['authorization', `Bearer ${mine.home.token}`],
        ['platform-grant', grant],
        ['platform-grant', grant],
      ],
    });
    // The two arrive as one line, which is no grant.
    expect([400, 403]).toContain(response.status);
    await response.arrayBuffer();
  });
});

describe('when the selection changes', () => {
  test('earlier grants are stale at once, and never give access to another bucket', async () => {
    const { home, fields, set } = await selected('changes');
    const first = await grantOf(fixture.issuer, home, set);
    const at = (grant?: string) => home.at(fixture.broker, grant);
    expect(codeOf(await at(first).put('changes-1', 'x'))).toBe('200 ok');

    await home.credentials.rotate(set.set_id, fields, 1);
    expect(codeOf(await at(first).put('changes-2', 'x'))).toBe('409 stale_grant');
    const second = await grantOf(fixture.issuer, home, { ...set, generation: 2 });
    expect((await at(second).get('changes-1')).text).toBe('x');

    expect((await home.credentials.select(null, 3)).status).toBe(200);
    expect(codeOf(await at(second).put('changes-3', 'x'))).toBe('409 stale_grant');
    expect(codeOf(await at().put('changes-4', 'x'))).toBe('200 ok');
    expect((await home.credentials.delete(set.set_id, 2)).status).toBe(200);
    expect(codeOf(await at(second).get('changes-1'))).toBe('409 stale_grant');

    expect(inSpace('changes-')).toEqual(['changes-4']);
    expect(inOwn(fields, 'changes-')).toEqual(['changes-1']);
  });

  test('grants of an earlier Capsule of the same id are not valid', async () => {
    const { home, set } = await selected('anew');
    const grant = await grantOf(fixture.issuer, home, set);
    await home.owner.dropAll('anew');
    await fixture.broker.provisioner.finalize('anew');
    expect(codeOf(await home.at(fixture.broker, grant).get('x'))).toBe('403 forbidden');
    const next = await fixture.home('anew');
    expect(codeOf(await next.at(fixture.broker, grant).get('x'))).toBe('403 forbidden');
    // Even with a grant for the new principal the old set does not exist.
    const odd = await grantOf(fixture.issuer, next, set);
    expect(codeOf(await next.at(fixture.broker, odd).get('x'))).toBe('409 stale_grant');
  });
});

describe('when something fails', () => {
  test('a damaged or older registry serves no objects from any bucket', async () => {
    const { home, set } = await selected('damaged');
    const grant = await grantOf(fixture.issuer, home, set);
    const sql = (text: string) => fixture.registry(text, ['damaged']);
    await sql(`UPDATE broker.credential_inventory SET selected = NULL WHERE capsule_id = $1`);
    for (const one of [home.at(fixture.broker, grant), home.at(fixture.broker)])
      expect(codeOf(await one.put('damaged-1', 'x'))).toBe('503 custody_unavailable');
    await sql('DELETE FROM broker.credential_set WHERE capsule_id = $1');
    await sql('DELETE FROM broker.credential_inventory WHERE capsule_id = $1');
    for (const one of [home.at(fixture.broker, grant), home.at(fixture.broker)])
      expect(codeOf(await one.put('damaged-2', 'x'))).toBe('503 custody_rollback');
    expect(inSpace('damaged-')).toEqual([]);
  });

  test('a withdrawn key or a deleted bucket is an error, without falling back to another bucket', async () => {
    const { home, fields, set } = await selected('withdrawn');
    const one = home.at(fixture.broker, await grantOf(fixture.issuer, home, set));
    const bucket = join(fixture.own.server.directory, fields.bucket);
    renameSync(bucket, `${bucket}-away`);
    const answer = await one.put('withdrawn-1', 'x');
    expect(codeOf(answer)).toBe('502 upstream_failed');
    expect(answer.text).not.toContain(fields.bucket);
    expect(inSpace('withdrawn-')).toEqual([]);
    renameSync(`${bucket}-away`, bucket);
    expect(codeOf(await one.put('withdrawn-1', 'x'))).toBe('200 ok');
  });

  test('a certificate of an unknown authority is not trusted', async () => {
    const { home, set } = await selected('untrusted');
    const { BYOK_CA_FILE: _ca, ...environment } = fixture.environment;
    const replica = await fixture.replica({ environment });
    const grant = await grantOf(fixture.issuer, home, set);
    expect(codeOf(await home.at(replica, grant).put('untrusted-1', 'x'))).toBe('502 upstream_failed');
    await replica.stop();
  });
});

test('the keyring is exchanged while requests are granted, and none of them fails', async () => {
  const { home, set } = await selected('keyring');
  const one = home.at(fixture.broker, await grantOf(fixture.issuer, home, set));
  expect(codeOf(await one.put('keyring-1', 'x'))).toBe('200 ok');
  const { keys } = JSON.parse(readFileSync(join(fixture.mounts.directory, 'keyring'), 'utf8'));
  keys.k2 = randomBytes(32).toString('base64url');
  const seen: string[] = [];
  let stop = false;
  const readers = Array.from({ length: 4 }, async () => {
    while (!stop) seen.push((await one.get('keyring-1')).text);
  });
  const more = async () => {
    const before = seen.length;
    await eventually(() => seen.length > before + 8, { what: 'more requests' });
  };
  for (const primary of ['k1', 'k2']) {
    fixture.mounts.write('keyring', JSON.stringify({ primary, keys }));
    await fixture.broker.refreshFiles();
    await more();
  }
  await fixture.broker.round('custody');
  await more();
  stop = true;
  await Promise.all(readers);
  expect(new Set(seen)).toEqual(new Set(['x']));
  expect(await fixture.registry('SELECT DISTINCT kid FROM broker.credential_set')).toEqual([{ kid: 'k2' }]);
});

describe('the operator’s keys', () => {
  test('are exchanged while the broker runs', async () => {
    const { home, set } = await selected('exchange');
    const next = newIssuer();
    const [old, fresh] = [await grantOf(fixture.issuer, home, set), await grantOf(next, home, set)];
    const both = async () =>
      Promise.all([old, fresh].map(async (grant) => (await home.at(fixture.broker, grant).get('x')).status));
    expect(await both()).toEqual([404, 403]);
    fixture.useKeys(fixture.issuer.keySet(next));
    await fixture.broker.refreshFiles();
    expect(await both()).toEqual([404, 404]);
    fixture.useKeys(next.keySet());
    await fixture.broker.refreshFiles();
    expect(await both()).toEqual([403, 404]);
    // An invalid file is not used, and the last valid keys stay.
    fixture.useKeys('{"keys":[]}');
    await fixture.broker.refreshFiles();
    expect(await both()).toEqual([403, 404]);
    fixture.useKeys(fixture.issuer.keySet());
    await fixture.broker.refreshFiles();
  });

  test('are required for the start of the broker', async () => {
    const environment = { ...fixture.environment, GRANT_KEYS_FILE: '/nonexistent' };
    await expect(fixture.replica({ environment })).rejects.toThrow();
  });
});

test('if the data plane does not use Capsules’ own credentials, a selection and a grant change nothing', async () => {
  const { home, set } = await selected('switched-off');
  const replica = await fixture.replica({ environment: { ...fixture.own.environment } });
  const grant = await grantOf(fixture.issuer, home, set);
  for (const one of [home.at(replica), home.at(replica, grant), home.at(replica, 'anything')])
    expect(codeOf(await one.put('switched-off', 'x'))).toBe('200 ok');
  expect(inSpace('switched-off')).toHaveLength(1);
  await replica.stop();
});
