/** What the Space itself is made of: on Repairs where it is not as it should be, and on the page of sandbox and brokers. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { named } from '../../e2e/space/testing/policy-server.ts';
import { makePki } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { freePort } from '../../testing/ports.ts';
import type { Browser } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { node, probe, program } from '../testing/machinery.ts';
import { condition, type Subjects, subjects } from '../testing/subjects.ts';

let environment: TestEnvironment;
let made: Subjects;
let admin: Browser;
let viewer: Browser;

beforeAll(async () => {
  environment = await startEnvironment();
  made = subjects(environment);
  await made.capsule('household', { quota: { database: '1Gi', assistants: 1 } }, [
    condition('Ready', 'False', 'QuotaExceeded', 'Its databases hold more than 1Gi.'),
    condition('SandboxReady', 'True', 'SandboxAvailable', 'A probe ran in the sandbox.'),
    condition('NetworkReady', 'False', 'EnforcementFailed', 'On node "bare" a pod reached the canary.'),
  ]);
  await made.assistant('second', { capsule: 'household' }, [
    condition('Ready', 'False', 'QuotaExceeded', 'The Capsule has 1 Assistant, as many as it may have.'),
  ]);
  await node(environment, 'sound', ['runc', 'runsc']);
  await node(environment, 'bare', ['runc']);
  await program(environment, ['home-system', 'home-operator'], 2);
  await program(environment, ['home-services', 'db-broker'], 0);
  await program(environment, ['home-services', 'postgres'], 1, 'statefulsets');
  await probe(environment, 'sandbox-probe', 'sound');
  await probe(environment, 'network-probe', 'bare', 'reached the canary at 7002');
  await environment.administer('admin');
  [admin, viewer] = [await environment.signedIn('admin'), await environment.signedIn('viewer')];
});
afterAll(() => environment?.close());

describe('Repairs', () => {
  it('lists and counts the Space’s own programs, nodes and probes, with reason and time', async () => {
    const { text } = await admin.get('/');
    for (const says of [
      'Repairs 6 to repair',
      'Program db-broker Is not running NothingReady since 2026-11-22 20:00 UTC',
      '0 of 2 pods of Deployment db-broker in home-services are ready. See why: kubectl -n home-services describe deployment db-broker',
      'Program postgres Is running in part TooFewReady',
      'Node bare Node has no sandbox NodeWithoutHandler',
      'A probe failed ProbeFailed',
      'It tested the network policies and failed. On node bare. It found: reached the canary at 7002',
    ])
      expect(text).toContain(says);
    expect(text).not.toMatch(/Program home-operator|Node sound/);
  });

  it('lists of these only what the person may see', async () => {
    const { text } = await viewer.get('/');
    expect(text).toContain('Repairs 2 to repair');
    expect(text).not.toMatch(/Program|Node bare|Probe/);
  });

  it('shows a repair at once, and on other pages within seconds', async () => {
    await environment.policyServer.server.client.call({
      method: 'PATCH',
      path: '/apis/apps/v1/namespaces/home-services/statefulsets/postgres/status',
      contentType: 'application/merge-patch+json',
      body: { status: { readyReplicas: 2 } },
    });
    expect((await admin.get('/')).text).not.toContain('Program postgres');
    expect((await admin.get('/capsules')).text).toContain('Repairs 5 to repair');
  });
});

describe('a quota that is exceeded', () => {
  const quota = async () =>
    (await made.get('/apis/platform.space/v1/namespaces/home/capsules/household')).spec.quota;
  const action = '/capsules/household/quota';

  it('can be raised where it is reported, with one form', async () => {
    const page = await admin.get('/');
    expect(
      page.forms.filter((form) => form.action === action).map(({ fields }) => Object.keys(fields)),
    ).toEqual([
      ['form_token', 'database', 'seen-database'],
      ['form_token', 'assistants', 'seen-assistants'],
    ]);
    const shown = await admin.send(page, action, { database: '2Gi' });
    expect([shown.status, shown.path]).toEqual([200, '/capsules/household']);
    expect(await quota()).toMatchObject({ database: '2Gi', assistants: 1 });
  });

  it('is validated by admission, and a refused value stays in its field with the reason', async () => {
    const page = await admin.send(await admin.get('/capsules/household'), action, { database: 'much' });
    expect(page.status).toBe(422);
    expect(page.html).toMatch(/id="quota-household-database-problem" role="alert">Nothing was changed\./);
    expect(page.html).toMatch(/name="database" value="much"/);
    expect(await quota()).toMatchObject({ database: '2Gi' });
    const empty = await admin.send(await admin.get('/capsules/household'), action, {
      database: '',
      assistants: '',
      storage: '',
    });
    expect(empty.text).toContain('Enter at least one new limit.');
  });

  it('is offered to nobody who may not change the Capsule', async () => {
    for (const path of ['/', '/capsules/household'])
      expect((await viewer.get(path)).forms.map((form) => form.action)).not.toContain(action);
  });
});

describe('the page of sandbox and brokers', () => {
  it('shows the gate’s verdict, nodes, probes, programs and versions', async () => {
    const { text } = await admin.get('/sandbox');
    for (const says of [
      'Sandbox: whether Assistants are scheduled Sandbox available SandboxAvailable A probe ran in the sandbox',
      'Network: whether the network policies are enforced Network policies are not enforced EnforcementFailed On node "bare"',
      'bare missing runc v1.36.0 containerd://2.1.4',
      'sound installed runc, runsc v1.36.0',
      'gvisor with handler runsc',
      'sound the sandbox passed – 2026-11-22 20:00 UTC',
      'bare the network policies failed reached the canary at 7002',
      'db-broker 0 of 2 0.2.0 db-broker:0.2.0',
      'home-operator 2 of 2 0.2.0',
    ])
      expect(text).toContain(says);
  });

  it('names the roles that the hidden parts require', async () => {
    const { text } = await viewer.get('/sandbox');
    expect(text).toContain('Sandbox available');
    expect(text).toContain('You may not see these: this requires the role home-space-cluster.');
    expect(text).toContain('this requires the role home-space-runtime in home-system and home-services');
    expect(text).not.toMatch(/db-broker 0 of 2|containerd/);
  });

  it('is notified about its changes', async () => {
    const cookie = [...admin.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const stop = new AbortController();
    const { body } = await fetch(`${environment.origin}/live?page=/sandbox`, {
      headers: { cookie },
      signal: stop.signal,
    });
    let told = '';
    void (async () => {
      for await (const chunk of body ?? []) told += Buffer.from(chunk).toString();
    })().catch(() => undefined);
    await eventually(() => told.includes('retry'), { what: 'the stream to begin' });
    await program(environment, ['home-services', 'late'], 2);
    await eventually(() => told.includes('changed'), { what: 'a new program to be told' });
    stop.abort();
  });
});

describe('certificates', () => {
  it('are shown with the days that they are still valid, and as repairs when they expire soon', async () => {
    const pki = await makePki();
    const broker = createServer({ ...(await pki.issue('localhost')), ca: pki.authority });
    broker.listen(0, '127.0.0.1');
    await once(broker, 'listening');
    const { port } = broker.address() as AddressInfo;
    const { origin } = await environment.start({
      OBJECT_STORE_URL: `https://localhost:${port}`,
      OBJECT_STORE_CA_FILE: environment.write('broker-authority.crt', pki.authority),
    });
    const [signedIn, other] = [
      await environment.signedIn('admin', origin),
      await environment.signedIn('viewer', origin),
    ];
    const { text } = await signedIn.get('/sandbox');
    // Those of tests are good for two days.
    expect(text).toMatch(/The Space’s authority 1 day \d{4}-/);
    expect(text).toMatch(/Object store, control and data 1 day \d{4}-/);
    expect((await signedIn.get('/')).text).toContain(
      'Certificate Object store, control and data Expires soon CertificateEndsSoon It expires in 1 day.',
    );
    expect((await other.get('/')).text).not.toContain('Certificate');
    broker.close();
    await pki.remove();
  });

  it('of all services are shown: from the handshake, else from the record of the program of keys, else as unknown', async () => {
    const pki = await makePki();
    const broker = createServer({ ...(await pki.issue('localhost')), ca: pki.authority });
    broker.listen(0, '127.0.0.1');
    await once(broker, 'listening');
    const { port } = broker.address() as AddressInfo;
    const services = [
      'console',
      'db-broker',
      'objectstore-broker',
      'platform-assistant-egress',
      'postgres',
      's3',
    ];
    const inDays = (days: number) => new Date(Date.now() + (days + 0.5) * 86_400_000).toISOString();
    const certificates = (yours: boolean) =>
      JSON.stringify(
        Object.fromEntries(services.map((name) => [name, { secret: `home-services/${name}-tls`, yours }])),
      );
    const told = {
      'db-broker': inDays(900),
      postgres: inDays(10),
      s3: inDays(-2),
      'objectstore-broker': inDays(900),
    };
    const settings = {
      OBJECT_STORE_URL: `https://localhost:${port}`,
      OBJECT_STORE_CA_FILE: environment.write('all-authority.crt', pki.authority),
      CERTIFICATES: certificates(false),
      CERTIFICATES_FILE: environment.write('certificates.json', JSON.stringify(told)),
    };
    const { origin } = await environment.start(settings);
    const who = await environment.signedIn('admin', origin);
    const { text } = await who.get('/sandbox');
    const run = 'Run it now: kubectl -n home-system create job --from=cronjob/home-keys keys-now';
    for (const says of [
      /Database broker 900 days \d{4}-\d\d-\d\d \d\d:\d\d UTC CronJob home-keys/,
      // It shows another one than was signed.
      /Object store, control and data 1 day /,
      new RegExp(
        `PostgreSQL 10 days .* UTC CronJob home-keys checks it every hour and renews it after a third of its lifetime.*${run}`,
      ),
      /S3 server expired /,
      /The Space’s authority 1 day .* Delete it: kubectl -n home-services delete secret space-ca . Run it now/,
      /Egress gateway not known – CronJob home-keys/,
      /Console not known – CronJob home-keys/,
    ])
      expect(text).toMatch(says);
    const repairs = (await who.get('/')).text;
    expect(repairs).toContain(
      'Certificate PostgreSQL Expires soon CertificateEndsSoon It expires in 10 days.',
    );
    expect(repairs).toContain('Certificate S3 server');
    expect(repairs).not.toMatch(/Certificate (?:Console|Egress gateway|Database broker)/);

    const mine = await environment.start({
      ...settings,
      CERTIFICATES: certificates(true),
      CERTIFICATES_FILE: environment.write('no-certificates.json', 'half of'),
    });
    const other = (await (await environment.signedIn('admin', mine.origin)).get('/sandbox')).text;
    expect(other).toMatch(/Database broker not known – you, in home-services\/db-broker-tls/);
    expect(other).toContain('find out why home-services/objectstore-broker-tls was not renewed');
    broker.close();
    await pki.remove();
  });
});

describe('a file of a certificate that somebody spoils', () => {
  it('fails no page, since its last valid content counts', async () => {
    const pki = await makePki();
    const file = environment.write('spoilt-authority.crt', pki.authority);
    let now = Date.now();
    const { origin } = await environment.start(
      { OBJECT_STORE_URL: `https://localhost:${await freePort()}`, OBJECT_STORE_CA_FILE: file },
      () => new Date(now),
    );
    const who = await environment.signedIn('admin', origin);
    environment.write('spoilt-authority.crt', 'half of a certificate');
    const notices = () => environment.log.filter((one) => /file changed/.test(one) && one.includes(file));
    await eventually(() => notices().length >= 2, { what: 'both readers of the file to notice' });
    now += 61_000;
    const { status, text } = await who.get('/sandbox');
    expect(status).toBe(200);
    expect(text).toMatch(/The Space’s authority 1 day /);
    await pki.remove();
  });
});

describe('a cluster of 501 nodes, which the API server lists in several answers', () => {
  it('shows the last of them, and what is wrong with it', async () => {
    const more = Array.from({ length: 498 }, (_, index) => `more-${String(index).padStart(3, '0')}`);
    for (let at = 0; at < more.length; at += 20)
      await Promise.all(
        more.slice(at, at + 20).map((name) => environment.policyServer.create('/api/v1/nodes', named(name))),
      );
    await node(environment, 'zz-last', ['runc']);
    // So many nodes are kept for some seconds, and the other session may have read them before the last one was there.
    const newcomer = await environment.signedIn('admin');
    expect((await newcomer.get('/')).text).toContain('Node zz-last Node has no sandbox NodeWithoutHandler');
    expect((await newcomer.get('/sandbox')).text).toContain('zz-last missing runc v1.36.0');
  });
});
