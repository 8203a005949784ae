import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { freePort } from '../../testing/ports.ts';
import type { Browser } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { startReplica, type TestReplica } from '../testing/gateway.ts';
import { type Subjects, subjects } from '../testing/subjects.ts';

let environment: TestEnvironment;
let replica: TestReplica;
let made: Subjects;
let viewer: Browser;
const LEDGER = '/capsules/household/assistants/ledger';

beforeAll(async () => {
  replica = await startReplica();
  environment = await startEnvironment(replica.environment);
  made = subjects(environment);
  await made.capsule('household');
  for (const name of ['ledger', 'silent'])
    await made.assistant(name, {
      capsule: 'household',
      manifest: manifest(name, { network: { allowed_hosts: ['rates.ecb.org'] } }),
    });
  const { metadata } = await made.get('/apis/platform.space/v1/namespaces/home/assistants/ledger');
  const about = { capsule_id: 'household', app_id: 'ledger', assistant_uid: metadata.uid };
  await replica.call(
    about,
    ['rates.ecb.org'],
    [
      'tracking.example:443',
      'tracking.example:443',
      'xn--pypal-4ve.example:443',
      '10.0.0.1:443',
      'rates.ecb.org:443',
    ],
  );
  viewer = await environment.signedIn('viewer');
});
afterAll(async () => {
  await environment?.close();
  await replica?.close();
});

describe('the calls of an Assistant, on its page', () => {
  it('are shown by host with the reasons of refusals, and with the line that its author could add', async () => {
    const { text } = await viewer.get(LEDGER);
    expect(text).toContain('tracking.example – 2 its manifest does not name this host host_denied –');
    expect(text).toContain('an IP address, or another port – 1');
    expect(text).toContain('rates.ecb.org – – 1 the name of the host cannot be resolved name_unresolved');
    expect(text).toContain('xn--pypal-4ve.example has unusual letters');
    expect(text).toContain('"allowed_hosts": ["rates.ecb.org","tracking.example"]');
  });

  it('are those under the id that its pods have, while a change of the id is refused', async () => {
    const status = { manifest: { id: 'former', version: '1.0.0', digest: `sha256:${'0'.repeat(64)}` } };
    await made.assistant('former', { capsule: 'household', manifest: manifest('renamed') }, [], status);
    const { metadata } = await made.get('/apis/platform.space/v1/namespaces/home/assistants/former');
    const about = { capsule_id: 'household', app_id: 'former', assistant_uid: metadata.uid };
    await replica.call(about, [], ['tracking.example:443']);
    expect((await viewer.get('/capsules/household/assistants/former')).text).toContain(
      'tracking.example – 1',
    );
  });

  it('offer no action that allows a host', async () => {
    const { forms } = await viewer.get(LEDGER);
    expect(forms.map(({ action }) => action)).toEqual(['/sign-out']);
  });

  it('of an Assistant without calls are shown as none', async () => {
    const { text } = await viewer.get('/capsules/household/assistants/silent');
    expect(text).toContain('It has called no host outside since the gateway began to count.');
  });

  it('are hidden from a person who may not get the Assistant', async () => {
    const nobody = await environment.signedIn('nobody');
    const { status, html } = await nobody.get(LEDGER);
    expect(status).toBe(403);
    expect(html).not.toContain('tracking.example');
  });

  it('are shown as unknown while no replica answers, on an otherwise complete page', async () => {
    const other = await environment.start({ EGRESS_URL: `http://127.0.0.1:${await freePort()}` });
    const { status, text } = await (await environment.signedIn('viewer', other.origin)).get(LEDGER);
    expect(status).toBe(200);
    expect(text).toContain('The egress gateway did not answer');
  });

  it('are shown as unknown if the gateway refuses the console’s token', async () => {
    const file = environment.write('other', 'spc_obs_0123456789012345678901234567890123456789012');
    const other = await environment.start({ EGRESS_OBSERVER_TOKEN_FILE: file });
    const { text } = await (await environment.signedIn('viewer', other.origin)).get(LEDGER);
    expect(text).toContain('The egress gateway did not answer');
  });
});
