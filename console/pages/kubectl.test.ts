/** Each page, also an error page, ends with the kubectl commands for the same. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'parse5';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { freePort } from '../../testing/ports.ts';
import { word } from '../html/parts.ts';
import { attribute, type Browser, textOf, walk } from '../testing/browser.ts';
import type { TestEnvironment } from '../testing/environment.ts';
import { EVERY_ROUTE } from '../testing/routes-of.ts';
import { condition, input, inputDigest, subjects } from '../testing/subjects.ts';
import { startWithStore, type WithStore } from '../testing/with-store.ts';
import { assistantCommands } from './assistant-commands.ts';

let whole: WithStore;
let environment: TestEnvironment;
let admin: Browser;
let viewer: Browser;

const HOUSEHOLD = '/capsules/household';
const ASKING = `${HOUSEHOLD}/assistants/asking`;
const ENDS =
  /<h2 class="kubectl">The same with kubectl<\/h2><pre class="typed" tabindex="0">([^<]+)<\/pre>\s*<\/main>/;

/** The commands; undefined if the page ends with something else. */
const commands = (html: string) => ENDS.exec(html)?.[1];

beforeAll(async () => {
  whole = await startWithStore();
  ({ environment } = whole);
  const made = subjects(environment);
  await made.capsule('household');
  await whole.principal('household');
  const asks = manifest('asking', { stored_inputs: { bank: input() } });
  await made.assistant('asking', { capsule: 'household', manifest: asks }, [
    condition('Ready', 'False', 'InputsMissing'),
  ]);
  await environment.administer('admin');
  [admin, viewer] = [await environment.signedIn('admin'), await environment.signedIn('viewer')];
});
afterAll(() => whole?.close());

const PAGES = EVERY_ROUTE.filter(({ method, path }) => method === 'GET' && !path.endsWith('/archive')).map(
  ({ path }) => path.replace(':capsule', 'household').replace(':assistant', 'asking'),
);

describe('the same with kubectl', () => {
  it.each(PAGES)('ends %s', async (path) => {
    const { status, html } = await admin.get(path);
    expect(status).toBe(200);
    expect(commands(html)).toMatch(/^kubectl /m);
  });

  it('contains the commands for a stored input, its binding, suspending and resuming', async () => {
    const told = commands((await admin.get(ASKING)).html);
    for (const line of [
      'kubectl -n home create secret generic household.asking.bank --type=platform.space/stored-input --from-file=value=FILE',
      'kubectl label --local -f - platform.space/capsule=household -o yaml',
      `kubectl annotate --local -f - platform.space/entered-for="${inputDigest()} $(date +%s)" -o yaml | kubectl create -f -`,
      `kubectl -n home patch assistant asking --type merge -p '{"spec":{"storedInputs":{"bank":{"secretKeyRef":{"name":"household.asking.bank","key":"value"}}}}}'`,
      `kubectl -n home patch assistant asking --type merge -p '{"spec":{"suspend":true}}'`,
    ])
      expect(told?.replaceAll('&#39;', "'").replaceAll('&quot;', '"')).toContain(line);
    for (const path of [ASKING, HOUSEHOLD]) {
      const suspended = await admin.send(await admin.get(path), `${path}/suspend`);
      expect(commands(suspended.html)).toContain('suspend&quot;:false');
      await admin.send(suspended, `${path}/resume`);
    }
  });

  it('stores a bound input whether its Secret is there or not', async () => {
    const storedInputs = { bank: { secretKeyRef: { name: 'by-hand', key: 'value' } } };
    const asks = manifest('bound', { stored_inputs: { bank: input() } });
    await subjects(environment).assistant('bound', { capsule: 'household', manifest: asks, storedInputs });
    const told = commands((await admin.get(`${HOUSEHOLD}/assistants/bound`)).html);
    expect(told).toContain('-o yaml | kubectl apply --server-side --force-conflicts -f -');
    expect(told).not.toMatch(/kubectl (?:replace|create) -f|storedInputs/);
  });

  // The API server takes no such name; an object that was stored before that rule has it still.
  it.each(['$(touch FILE)', "'; touch FILE; '", '`touch FILE`', 'x;touch FILE #'])(
    'runs nothing else in a shell if the Capsule of an Assistant is %s',
    (form) => {
      const directory = mkdtempSync(join(tmpdir(), 'space-console-'));
      const made = join(directory, 'made');
      const capsule = form.replace('FILE', made);
      const spec = { capsule, manifest: manifest('odd', { stored_inputs: { bank: input() } }) };
      const metadata = { name: 'odd', uid: '1', resourceVersion: '1', annotations: {}, managedFields: [] };
      const view = { metadata, spec, status: { conditions: [] } };
      const html = assistantCommands({ namespace: 'home' }, view).toString();
      const [typed] = [...walk(parse(html))].filter((one) => attribute(one, 'class') === 'typed');
      const commands = typed === undefined ? '' : textOf(typed);
      expect(commands).toContain(`platform.space/capsule=${word(capsule)}`);
      execFileSync('sh', ['-c', `kubectl() { :; }\n${commands}`], { cwd: directory, stdio: 'ignore' });
      expect(existsSync(made)).toBe(false);
      rmSync(directory, { recursive: true });
    },
  );

  it('ends a page with a refused form', async () => {
    const refused = [
      [ASKING, `${ASKING}/inputs/bank`, { value: 'aaaa' }],
      [HOUSEHOLD, `${HOUSEHOLD}/quota`, { database: 'much' }],
      [`${HOUSEHOLD}/credentials`, `${HOUSEHOLD}/credentials/create`, { name: 'Not a name' }],
    ] as const;
    for (const [path, action, fields] of refused) {
      const { status, html } = await admin.send(await admin.get(path), action, fields);
      expect(status, action).toBe(422);
      expect(commands(html), action).toMatch(/^kubectl /);
    }
  });

  it('ends an error page, with commands that show more', async () => {
    const missing = await admin.get('/capsules/nowhere');
    expect([missing.status, commands(missing.html)]).toEqual([
      404,
      'kubectl -n home get capsules,assistants -o wide',
    ]);
    const refused = await viewer.get(`${HOUSEHOLD}/credentials`);
    expect([refused.status, commands(refused.html)]).toEqual([403, 'kubectl -n home auth can-i --list']);
    const url = `http://127.0.0.1:${await freePort()}`;
    const { origin } = await environment.start({ OBJECT_STORE_URL: url });
    const away = await (await environment.signedIn('admin', origin)).get(`${HOUSEHOLD}/credentials`);
    expect(away.status).toBe(503);
    expect(commands(away.html)).toMatch(/logs deployment\/home-console --since 10m \| grep [0-9a-f]{32}$/);
    const outside = await admin.get('/no/such/page');
    expect([outside.status, commands(outside.html)]).toEqual([404, expect.stringMatching(/^kubectl /)]);
  });
});
