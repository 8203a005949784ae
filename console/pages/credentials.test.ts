import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeAuthority } from '../../testing/certificates.ts';
import { freePort } from '../../testing/ports.ts';
import { Browser } from '../testing/browser.ts';
import type { TestEnvironment } from '../testing/environment.ts';
import { subjects } from '../testing/subjects.ts';
import { RECORD } from '../testing/taken-over.ts';
import { filled, startWithStore, type WithStore } from '../testing/with-store.ts';

let whole: WithStore;
let environment: TestEnvironment;
let principal: string;

beforeAll(async () => {
  whole = await startWithStore();
  ({ environment } = whole);
  await subjects(environment).capsule('household');
  principal = await whole.principal('household');
});
afterAll(() => whole.close());

const PAGE = '/capsules/household/credentials';

describe('credential sets', () => {
  it('cannot be shown for a Capsule whose principal the console may not read yet, which is logged', async () => {
    const admin = await environment.signedIn('admin');
    const begun = environment.log.length;
    const page = await admin.get('/capsules/elsewhere/credentials');
    expect(page.status).toBe(503);
    expect(page.text).toContain('the Role home-console-principals in home-system does not name it');
    expect(page.text).toContain('If somebody deleted that Role, helm upgrade creates it again.');
    const told = environment.log.slice(begun).find((line) => line.includes('request failed'));
    expect(told).toContain('"code":"HTTP_403"');
  });

  it('have the broker’s form and can be verified, stored, rotated, selected and deleted; no value is returned', async () => {
    const who = await environment.signedIn('capsule-admin');
    const fields = whole.store.fields();
    let page = await who.get(PAGE);
    for (const label of ['Endpoint', 'Region', 'Bucket', 'Addressing', 'Access key ID', 'Secret access key'])
      expect(page.text).toContain(label);
    expect(page.html).toMatch(/<option value="path" *>path<\/option><option value="virtual-host"/);
    page = await who.send(page, `${PAGE}/create`, { name: 'archive', ...filled(fields) });
    expect(page.text).toContain('archive');
    const seen = [page.html];
    const { 'access-key-id': id, 'secret-access-key': secret } = fields;
    const keys = filled({ 'access-key-id': id, 'secret-access-key': secret });
    page = await who.send(page, `${PAGE}/rotate`, { ...keys, 'field-addressing': 'path' });
    expect(page.text).toMatch(/2, verified [-0-9: ]+ UTC ?, rotated/);
    seen.push(page.html);
    page = await who.send(page, `${PAGE}/select`);
    expect(page.text).toContain('archive selected');
    expect(page.forms.map(({ action }) => action)).not.toContain(`${PAGE}/delete`);
    const capsule = await who.get('/capsules/household');
    expect(capsule.text).toMatch(/archive selected .*fp_[0-9a-f]{16} .* UTC Its own keys/);
    expect((await (await environment.signedIn('viewer')).get('/capsules/household')).text).not.toContain(
      'fp_',
    );
    page = await who.send(page, `${PAGE}/select`);
    page = await who.send(page, `${PAGE}/delete`);
    expect(page.text).toContain('There is none');
    for (const text of [...seen, page.html, environment.log.join('')])
      for (const value of [id, secret, principal]) expect(text).not.toContain(value);
  });

  it('are created and recorded once, although the form was sent twice', async () => {
    const who = await environment.signedIn('admin');
    const form = await who.get(PAGE);
    const fields = { name: 'twice', ...filled(whole.store.fields()) };
    const [, again] = [
      await who.send(form, `${PAGE}/create`, fields),
      await who.send(form, `${PAGE}/create`, fields),
    ];
    expect([again.status, again.text.match(/Verify and rotate/g)]).toEqual([200, ['Verify and rotate']]);
    const { text } = await who.get('/capsules/household');
    expect(text.match(/Credential set twice created/g)).toHaveLength(1);
    await who.send(again, `${PAGE}/delete`);
  });

  it('that fail are reported at the field, and the form keeps everything except secrets', async () => {
    const who = await environment.signedIn('capsule-admin');
    const cases: [Record<string, string>, string, string][] = [
      [{ 'secret-access-key': 'wrong-secret-access-key' }, 'access-key-id', 'does not accept this key'],
      [{ bucket: 'nowhere-to-be-found' }, 'bucket', 'no such bucket'],
      [{ endpoint: 'https://nobody.invalid' }, 'endpoint', 'The endpoint does not answer'],
      [{ endpoint: 'http://169.254.169.254' }, 'endpoint', 'the format is wrong'],
    ];
    for (const [change, field, says] of cases) {
      const values = { ...whole.store.fields(), ...change };
      const page = await who.send(await who.get(PAGE), `${PAGE}/create`, { name: 'kept', ...filled(values) });
      expect(page.status, says).toBe(422);
      expect(page.html).toMatch(new RegExp(`id="new-${field}-problem">[^<]*${says}`));
      expect(page.html).toContain(`value="${values.bucket}"`);
      expect(page.html).not.toContain(values['secret-access-key']);
      expect(page.html).not.toContain(values['access-key-id']);
    }
  });

  it('that somebody else has changed are not changed, and shown in their new state', async () => {
    const [one, other] = [await environment.signedIn('capsule-admin'), await environment.signedIn('admin')];
    const mine = await one.get(PAGE);
    await other.send(await other.get(PAGE), `${PAGE}/create`, {
      name: 'theirs',
      ...filled(whole.store.fields()),
    });
    const fields = whole.store.fields();
    const page = await one.send(mine, `${PAGE}/create`, { name: 'mine', ...filled(fields) });
    expect(page.status).toBe(409);
    expect(page.text).toContain('Somebody changed the sets after you opened the page');
    const by = 'by system:serviceaccount:home:admin at \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d UTC';
    expect(page.text).toMatch(new RegExp(`theirs was created ${by}`));
    expect(page.text).not.toContain('not recorded');
    for (const typed of ['mine', fields.endpoint, fields.region, fields.bucket])
      expect(page.html).toContain(`value="${typed}"`);
    for (const secret of [fields['access-key-id'], fields['secret-access-key']])
      expect(page.html).not.toContain(secret);

    const keys = {
      'access-key-id': fields['access-key-id'],
      'secret-access-key': fields['secret-access-key'],
    };
    await other.send(await other.get(PAGE), `${PAGE}/rotate`, {
      ...filled(keys),
      'field-addressing': 'path',
    });
    await other.send(await other.get(PAGE), `${PAGE}/select`);
    const rotated = await one.send(page, `${PAGE}/select`);
    expect(rotated.status).toBe(409);
    expect(rotated.text).toMatch(new RegExp(`theirs was selected ${by}\\s*\\. theirs was rotated ${by}`));
    await other.send(await other.get(PAGE), `${PAGE}/select`);
    await other.send(await other.get(PAGE), `${PAGE}/delete`);
    const deleted = await one.send(rotated, `${PAGE}/select`);
    expect(deleted.text).toMatch(
      new RegExp(`theirs was deleted ${by}\\s*\\. The selection was removed ${by}`),
    );
    expect((await one.get('/capsules/household')).text).toMatch(
      /Credential set theirs deleted [-0-9: ]+ UTC By system:serviceaccount:home:admin , with the console/,
    );
  });

  it('that were changed without a record, for lack of rights or without the console, are shown without a name', async () => {
    const one = await environment.signedIn('capsule-admin');
    const may = (verbs: readonly string[]) => ({
      apiGroups: ['platform.space'],
      resources: ['capsules'],
      verbs,
    });
    const keeper = await environment.signedInWith(await environment.person('keeper', [may(['credentials'])]));
    const mine = await one.get(PAGE);
    await keeper.send(await keeper.get(PAGE), `${PAGE}/create`, {
      name: 'kept',
      ...filled(whole.store.fields()),
    });
    const page = await one.send(mine, `${PAGE}/create`, { name: 'mine', ...filled(whole.store.fields()) });
    expect(page.text).toMatch(/kept was created at [-0-9: ]+ UTC\s*; it is not recorded by whom/);
    expect(page.text).not.toContain('by system:');
    // The page tells the keeper that they may not see the record.
    const seen = await keeper.get(PAGE);
    await one.send(page, `${PAGE}/select`);
    const blind = await keeper.send(seen, `${PAGE}/select`);
    expect(blind.text).toContain('You may not see the Capsule, which records who changed what.');
  });
});

describe('a broker that is unavailable', () => {
  it('is reported as such, and not as a fault of the console', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const { origin } = await environment.start({ OBJECT_STORE_URL: url });
    const who = new Browser(origin);
    await who.send(await who.get('/sign-in'), '/sign-in', { token: environment.tokens.admin });
    const begun = environment.log.length;
    const page = await who.get(PAGE);
    expect(page.status).toBe(503);
    expect(page.text).toContain('The credential sets cannot be shown now');
    const told = environment.log.slice(begun).find((line) => line.includes('request failed'));
    expect(told).toContain('"code":"ECONNREFUSED"');
    expect(told).not.toContain(principal);
  });
});

describe('a broker whose CA is exchanged', () => {
  it('is trusted with the new one, without a restart', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'space-console-'));
    const [before, after] = ['before', 'after'].map((name) => makeAuthority(directory, name));
    const { cert, key } = after!.sign('localhost', ['DNS:localhost']);
    const front = createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }, (asked, response) => {
      const to = { method: asked.method, headers: asked.headers };
      asked.pipe(request(`${whole.brokerUrl}${asked.url}`, to, (answer) => answer.pipe(response)));
    });
    const port = await freePort();
    await new Promise<void>((resolve) => front.listen(port, '127.0.0.1', resolve));
    const OBJECT_STORE_CA_FILE = environment.write('broker-ca.crt', readFileSync(before!.cert, 'utf8'));
    const settings = { OBJECT_STORE_URL: `https://localhost:${port}`, OBJECT_STORE_CA_FILE };
    const { origin } = await environment.start(settings);
    const who = new Browser(origin);
    await who.send(await who.get('/sign-in'), '/sign-in', { token: environment.tokens.admin });
    expect((await who.get(PAGE)).status).toBe(503);
    environment.write('broker-ca.crt', readFileSync(after!.cert, 'utf8'));
    await expect.poll(async () => (await who.get(PAGE)).status, { timeout: 240_000 }).toBe(200);
    front.closeAllConnections();
    front.close();
    rmSync(directory, { recursive: true });
  });
});

describe('a broker that was taken over', () => {
  const CANARY = 'C4NARY-secret-access-key';
  let evil: Server;
  let answer = '';
  let status = 200;
  let hangsUp = false;
  let origin: string;

  beforeAll(async () => {
    const port = await freePort();
    const form = await (await fetch(`${whole.brokerUrl}/v1/driver/credentials`)).text();
    evil = createServer((request, response) => {
      request.resume();
      if (hangsUp && request.method === 'POST' && request.url?.endsWith('/list') === false)
        return void request.socket.destroy();
      response.writeHead(request.method === 'GET' ? 200 : status, { 'content-type': 'application/json' });
      response.end(request.method === 'GET' ? form : answer);
    });
    await new Promise<void>((resolve) => evil.listen(port, '127.0.0.1', resolve));
    ({ origin } = await environment.start({ OBJECT_STORE_URL: `http://127.0.0.1:${port}` }));
  });
  afterAll(() => void evil.close());

  it('cannot put a value into a page or the log', async () => {
    const who = new Browser(origin);
    const token = environment.tokens.admin;
    await who.send(await who.get('/sign-in'), '/sign-in', { token });
    const answered = { inventory_generation: 1, selected: null, sets: [RECORD], trace_id: 'a'.repeat(32) };
    answer = JSON.stringify(answered);
    expect((await who.get(PAGE)).text).toContain('archive');
    const canary = fc.constantFrom(CANARY, { [CANARY]: CANARY }, [CANARY], `x ${CANARY}`);
    const inRecord = fc.tuple(
      fc.constantFrom(...Object.keys(RECORD), 'secret_access_key', '__proto__x'),
      canary,
    );
    const inAnswer = fc.tuple(fc.constantFrom(...Object.keys(answered), 'value', 'error'), canary);
    const replies = fc.oneof(
      inRecord.map(([key, value]) => ({ ...answered, sets: [{ ...RECORD, [key]: value }] })),
      inAnswer.map(([key, value]) => ({ ...answered, [key]: value })),
      canary.map((value) => ({ error: { code: value }, trace_id: 'a'.repeat(32) })),
      canary.map((value) => ({ error: { code: 'verification_failed', check: value } })),
    );
    await fc.assert(
      fc.asyncProperty(replies, fc.constantFrom(200, 409, 422, 500), async (reply, code) => {
        [answer, status] = [JSON.stringify(reply), code];
        expect((await who.get(PAGE)).html).not.toContain(CANARY);
      }),
      { numRuns: 150 },
    );
    expect(environment.log.join('')).not.toContain(CANARY);
  });

  it('that disconnects during a change is reported as unavailable, and logged with the code', async () => {
    const who = new Browser(origin);
    await who.send(await who.get('/sign-in'), '/sign-in', { token: environment.tokens.admin });
    const whole = { inventory_generation: 1, selected: null, sets: [RECORD], trace_id: 'a'.repeat(32) };
    [answer, status, hangsUp] = [JSON.stringify(whole), 200, true];
    const begun = environment.log.length;
    const page = await who.send(await who.get(PAGE), `${PAGE}/delete`);
    expect(page.status).toBe(503);
    expect(page.text).toContain('It is not known whether the change took effect');
    const told = environment.log.slice(begun).find((line) => line.includes('request failed'));
    // By which of them a client learns that its connection has ended is not determined.
    expect(told).toMatch(/"code":"(UND_ERR_SOCKET|ECONNRESET|EPIPE)"/);
  });
});
