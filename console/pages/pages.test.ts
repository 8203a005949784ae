import { manifestDigest } from '@space/manifests';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decideApproval } from '../../operator/assistant/decide.ts';
import { ANNOTATION } from '../../operator/names.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import { type Browser, withoutOurs } from '../testing/browser.ts';
import { ROLES, type Role, startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { forged } from '../testing/forged.ts';
import { running } from '../testing/running.ts';
import { condition, HOSTILE, input, inputDigest, type Subjects, subjects } from '../testing/subjects.ts';

let environment: TestEnvironment;
let made: Subjects;
const as = {} as Record<Role, Browser>;

const HOUSEHOLD = '/capsules/household';
const at = (assistant: string) => `${HOUSEHOLD}/assistants/${assistant}`;

/** Sends a form of a page as a double click does. */
async function sentTwice(
  who: Browser,
  path: string,
  action: string,
  fields: Readonly<Record<string, string>> = {},
): Promise<void> {
  const page = await who.get(path);
  const answers = await Promise.all([1, 2].map(() => who.send(page, action, fields)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
}
/** The manifest's own rules refuse marks that turn text; a condition or the genesis may have them. */
const TEXT = HOSTILE.replace('\u202e', '');
const hostile = manifest('hostile', {
  platform: {
    ...manifest('hostile').platform,
    name: TEXT.slice(0, 80),
    description: TEXT,
    genesis: HOSTILE,
  },
  network: { allowed_hosts: ['b\u0430nk.org', 'javascript:alert(1)', '"><script>'] },
  stored_inputs: { bank: input({ label: TEXT.slice(0, 80), description: TEXT }) },
});

beforeAll(async () => {
  environment = await startEnvironment();
  made = subjects(environment);
  const quota = { database: '1Gi', storage: '10Gi', assistants: 5 };
  const told = {
    namespace: 'home-household-0a1b2c3d',
    usage: { database: '900Mi', storage: '1Gi' },
    assistants: { total: 3, ready: 1 },
  };
  await made.capsule(
    'household',
    { displayName: 'The Household', approval: 'manual', quota },
    undefined,
    told,
  );
  await made.capsule('broken', {}, [condition('Ready', 'False', 'BrokerUnreachable', 'Start the broker.')]);
  const usage = { usage: { database: '312Mi', storage: '3Gi' } };
  const by = { 'platform.space/installed-by': 'admin' };
  await made.assistant('ledger', { capsule: 'household' }, undefined, usage, by);
  await made.assistant(
    'waiting',
    { capsule: 'household', manifest: manifest('waiting', { network: { allowed_hosts: ['api.bank.org'] } }) },
    [
      condition('IntegrationsGranted', 'False', 'ApprovalMissing'),
      condition('Ready', 'False', 'ApprovalMissing', 'Approve it.'),
    ],
  );
  await made.assistant(
    'asking',
    { capsule: 'household', manifest: manifest('asking', { stored_inputs: { bank: input() } }) },
    [condition('Ready', 'False', 'InputsMissing', 'No Secret is bound for: bank.')],
  );
  await made.assistant('asleep', { capsule: 'household', suspend: true }, [
    condition('Ready', 'False', 'Suspended'),
  ]);
  await made.assistant('hostile', { capsule: 'household', manifest: hostile }, [
    condition('Ready', 'False', 'ManifestInvalid', HOSTILE),
  ]);
  for (const role of ROLES) as[role] = await environment.signedIn(role);
});
afterAll(() => environment.close());

describe('Repairs', () => {
  it('names what is wrong, why, and counts it beside the link on every page', async () => {
    const page = await as.admin.get('/');
    for (const text of [
      'Capsule broken',
      'BrokerUnreachable',
      'Start the broker.',
      'Assistant waiting',
      'Approve it.',
    ])
      expect(page.text).toContain(text);
    expect(page.text).not.toContain('Assistant ledger');
    for (const path of ['/', '/capsules', HOUSEHOLD])
      expect((await as.viewer.get(path)).text).toMatch(/Repairs 4 to repair/);
  });

  it('links an approver to the review, and resumes suspended objects', async () => {
    const page = await as['capsule-admin'].get('/');
    expect(page.text).toContain('Review what it may do, and approve');
    expect((await as.deployer.get('/')).text).not.toContain('Review what it may do');
    await as.deployer.send(
      page.forms.length > 0 ? await as.deployer.get('/') : page,
      `${at('asleep')}/resume`,
    );
    expect((await made.get('/apis/platform.space/v1/namespaces/home/assistants/asleep')).spec.suspend).toBe(
      false,
    );
  });
});

describe('Capsules', () => {
  it('shows for each its state and when it was created', async () => {
    const { text } = await as.viewer.get('/capsules');
    expect(text).toMatch(/broken .*BrokerUnreachable 0 of 0 ready – – \d{4}-\d\d-\d\d \d\d:\d\d UTC/);
    expect(text).toMatch(/household Ready 1 of 3 ready 900Mi 1Gi \d{4}-\d\d-\d\d/);
  });
});

describe('a Capsule', () => {
  it('that no operator has reconciled yet is shown as such, without a time', async () => {
    const path = '/apis/platform.space/v1/namespaces/home/capsules';
    const unseen = { apiVersion: 'platform.space/v1', kind: 'Capsule', metadata: { name: 'unseen' } };
    await environment.policyServer.create(path, unseen);
    const [list, own] = [await as.viewer.get('/'), await as.viewer.get('/capsules/unseen')];
    expect(list.text).toMatch(/Capsule unseen .*No operator has looked at it yet\./);
    expect(own.text).toContain('The operator has not reconciled it yet.');
    for (const { html } of [list, own]) expect(html).not.toContain('1970');
    await environment.policyServer.server.client.call({ method: 'DELETE', path: `${path}/unseen`, body: {} });
  });

  it('shows quota and usage, with a bar', async () => {
    const { html, text } = await as.viewer.get(HOUSEHOLD);
    expect(html).toMatch(/<meter aria-label="Database"[^>]*value="88">/);
    expect(html).toMatch(/<meter aria-label="Assistants"[^>]*value="60">/);
    expect(text).toContain('kubectl -n home describe capsule household');
  });

  it('shows the same on the page of each of its Assistants, which share the quota', async () => {
    const { html, text } = await as.viewer.get(at('ledger'));
    expect(html).toMatch(/<meter aria-label="Database"[^>]*value="88">/);
    expect(text).toContain('Usage of the whole Capsule');
  });
});

describe('an Assistant', () => {
  it('shows the usage of its own database and files, and says if it is not measured', async () => {
    expect((await as.viewer.get(at('ledger'))).text).toMatch(/Its database 312Mi Its own files 3Gi/);
    expect((await as.viewer.get(at('waiting'))).text).toMatch(
      /Its database not measured yet Its own files not measured yet/,
    );
  });

  it('shows who installed it, if recorded, and who approved it', async () => {
    const page = await as.viewer.get(at('ledger'));
    expect(page.text).toContain('Installed by admin .');
    expect((await as.viewer.get(at('waiting'))).text).toContain('It is not recorded who installed it');
  });
});

describe('approval', () => {
  it('is for exactly the manifest that was shown, and refused if it has changed', async () => {
    await made.assistant('moving', { capsule: 'household' });
    const seen = await as['capsule-admin'].get(at('moving'));
    await made.patch('assistants', 'moving', {
      spec: { manifest: manifest('moving', { network: { allowed_hosts: ['evil.org'] } }) },
    });
    const late = await as['capsule-admin'].send(seen, `${at('moving')}/approve`);
    expect(late.status).toBe(409);
    expect(late.text).toContain('The manifest has changed');
    const path = '/apis/platform.space/v1/namespaces/home/assistants/moving';
    expect((await made.get(path)).metadata.annotations).toBeUndefined();
    const again = await as['capsule-admin'].get(at('moving'));
    const page = await as['capsule-admin'].send(again, `${at('moving')}/approve`);
    expect(page.text).toContain('Approved By ');
    const { metadata, spec } = await made.get(path);
    const digest = manifestDigest(spec.manifest);
    expect(metadata.annotations).toEqual({
      'platform.space/approved': `sha256:${digest}`,
      'platform.space/approved-by': `sha256:${digest} system:serviceaccount:home:capsule-admin`,
    });
    // The operator takes it.
    const capsule = { metadata: { name: 'household' }, spec: { approval: 'manual' } } as const;
    expect(decideApproval({ metadata, spec }, { manifest: spec.manifest, digest }, capsule)).toBeUndefined();
    const { text } = await as.viewer.get(at('moving'));
    expect(text).toContain('Approved By system:serviceaccount:home:capsule-admin .');
    expect(text).toContain('Last written by the program space-console');
    expect(text).toContain('It is not recorded who installed it');
  });

  it('stays that of the first of two people who approve the same manifest', async () => {
    await made.assistant('both', { capsule: 'household' });
    const act = `${at('both')}/approve`;
    const [first, second] = [await as.admin.get(at('both')), await as['capsule-admin'].get(at('both'))];
    await as.admin.send(first, act);
    expect((await as['capsule-admin'].send(second, act)).status).toBe(200);
    const { metadata } = await made.get('/apis/platform.space/v1/namespaces/home/assistants/both');
    expect(metadata.annotations['platform.space/approved-by']).toMatch(/ system:serviceaccount:home:admin$/);
  });

  it('without a recorded approver is shown as such', async () => {
    await made.assistant('quiet', { capsule: 'household' });
    const { spec } = await made.get('/apis/platform.space/v1/namespaces/home/assistants/quiet');
    const digest = `sha256:${manifestDigest(spec.manifest)}`;
    const earlier = `sha256:${'0'.repeat(64)} admin`;
    for (const [key, value] of [
      ['approved-by', earlier],
      ['approved', digest],
    ])
      await made.patch('assistants', 'quiet', {
        metadata: {
          annotations: {
            [`platform.space/${key}`]: value,
            ...(key === 'approved-by' ? { 'platform.space/approved': `sha256:${'0'.repeat(64)}` } : {}),
          },
        },
      });
    const { text } = await as.viewer.get(at('quiet'));
    expect(text).toContain('Approved It is not recorded who approved it.');
    expect(text).not.toContain('By admin');
  });

  it('is not offered at the address of another Capsule', async () => {
    expect((await as.admin.get('/capsules/broken/assistants/moving')).status).toBe(404);
  });
});

describe('an Assistant', () => {
  it('is shown with everything that it may reach, as a picture and in words', async () => {
    const { html, text } = await as.viewer.get(at('waiting'));
    expect(html).toContain('<svg class="picture wide"');
    for (const words of [
      'Its own database',
      'api.bank.org',
      'any request over https',
      'You may not see the running manifest',
    ])
      expect(text).toContain(words);
  });

  it('that is hostile becomes no markup, and its deceptive characters are shown', async () => {
    for (const path of ['/', HOUSEHOLD, at('hostile')]) {
      const { html } = await as.admin.get(path);
      expect(withoutOurs(html), path).not.toMatch(/<script|<img|\u202e|href="javascript/i);
    }
    const { text } = await as.admin.get(at('hostile'));
    expect(text).toContain('⟨U+202E⟩');
    expect(text).toContain('U+0430');
    expect(text).toContain('has unusual letters');
    expect(text).toContain('leads to help.bank.org');
  });
});

describe('the history', () => {
  const NAME = 'system:serviceaccount:home:capsule-admin';
  const done = (what: string) =>
    new RegExp(`${what} \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d UTC By ${NAME} , with the console`);
  const object = async (kind: string, name: string) =>
    made.get(`/apis/platform.space/v1/namespaces/home/${kind}/${name}`);

  it('shows who suspended, resumed and changed the quota, on the page of the object', async () => {
    const who = as['capsule-admin'];
    await made.capsule('lively', { quota: { database: '1Gi' } });
    await made.assistant('lively', { capsule: 'lively' });
    const [capsule, assistant] = ['/capsules/lively', '/capsules/lively/assistants/lively'];
    for (const path of [capsule, assistant])
      for (const act of ['suspend', 'resume']) await who.send(await who.get(path), `${path}/${act}`);
    await who.send(await who.get(capsule), `${capsule}/quota`, { database: '2Gi' });
    const seen = (await as.viewer.get(capsule)).text;
    for (const what of ['Suspended', 'Resumed', 'Quota changed']) expect(seen).toMatch(done(what));
    const { text } = await as.viewer.get(assistant);
    for (const what of ['Suspended', 'Resumed']) expect(text).toMatch(done(what));
    expect(text).not.toMatch(done('Quota changed'));
    expect((await object('capsules', 'lively')).spec).toMatchObject({
      suspend: false,
      quota: { database: '2Gi' },
    });
  });

  const acts = async (kind: string, name: string) =>
    (await object(kind, name)).metadata.annotations['platform.space/record']
      .split('\n')
      .map((line: string) => line.split(/[ @]/).slice(1, 3).join(' '))
      .toReversed();

  it('has one line for a form that was sent twice', async () => {
    const who = as['capsule-admin'];
    await made.capsule('twice', { quota: { database: '1Gi' } });
    await made.assistant('twice', { capsule: 'twice' });
    const [capsule, assistant] = ['/capsules/twice', '/capsules/twice/assistants/twice'];
    for (const path of [capsule, assistant])
      for (const act of ['suspend', 'resume']) await sentTwice(who, path, `${path}/${act}`);
    await sentTwice(who, capsule, `${capsule}/quota`, { database: '2Gi' });
    expect(await acts('capsules', 'twice')).toEqual(['suspended -', 'resumed -', 'quota -']);
    expect(await acts('assistants', 'twice')).toEqual(['suspended -', 'resumed -']);
  });

  it('loses no line and no change if two write at once, and keeps the last 20', async () => {
    const acts = Array.from({ length: 6 }, async (_, index) => {
      const who = await environment.signedIn(index % 2 === 0 ? 'capsule-admin' : 'admin');
      // Without the limit that was shown, which somebody else may have changed by now.
      await forged(environment, who, '/capsules/lively/quota', { database: `${index + 3}Gi` });
    });
    await Promise.all(acts);
    const lines = async (): Promise<readonly string[]> =>
      (await object('capsules', 'lively')).metadata.annotations['platform.space/record'].split('\n');
    expect((await lines()).filter((line) => line.includes(' quota - '))).toHaveLength(7);
    const who = as['capsule-admin'];
    for (let time = 0; time < 14; time += 1)
      await who.send(await who.get('/capsules/lively'), '/capsules/lively/quota', {
        database: `${time + 10}Gi`,
      });
    expect(await lines()).toHaveLength(20);
  });

  it('shows failures of Events and conditions, the creator and the approver, and ignores lines of another form', async () => {
    const digest = `sha256:${manifestDigest(manifest('failing') as never)}`;
    await made.assistant(
      'failing',
      { capsule: 'household' },
      [condition('WorkloadReady', 'False', 'StartFailed', 'It ended with 1.')],
      {},
      { 'platform.space/installed-by': 'admin' },
    );
    const lines = ['2026-11-22T20:00:00Z exploded - admin', '2026-11-22T21:00:00Z suspended - admin'];
    const annotations = {
      'platform.space/approved': digest,
      'platform.space/approved-by': `${digest} admin`,
      'platform.space/record': lines.join('\n'),
    };
    await made.patch('assistants', 'failing', { metadata: { annotations } });
    await environment.policyServer.create('/apis/events.k8s.io/v1/namespaces/home/events', {
      metadata: { name: 'failing-once' },
      regarding: { apiVersion: 'platform.space/v1', kind: 'Assistant', name: 'failing', namespace: 'home' },
      eventTime: '2026-11-22T20:14:00.000000Z',
      type: 'Warning',
      reason: 'ImagePullFailed',
      note: 'The registry was away.',
      action: 'Reconcile',
      reportingController: 'platform.space/operator',
      reportingInstance: 'operator-0',
    });
    const { text } = await as.viewer.get(at('failing'));
    const [, told = ''] = text.split('History');
    for (const says of [
      'The registry was away.',
      'StartFailed',
      'Condition WorkloadReady became False.',
      'By admin . Last written by the program',
      'Installed by admin .',
      'Suspended 2026-11-22 21:00 UTC By admin , with the console.',
    ])
      expect(told).toContain(says);
    expect(told).not.toContain('exploded');
  });
});

describe('the differences of a manifest', () => {
  const NAMESPACE = 'home-household-0a1b2c3d';
  const next = manifest('wider', {
    platform: { ...manifest('wider').platform, version: '1.1.0' },
    network: { allowed_hosts: ['kept.org', 'new.org'] },
  });
  const runs = manifest('wider', { network: { allowed_hosts: ['kept.org', 'old.org'] } });
  const reader = { apiGroups: ['platform.space'], verbs: ['get', 'list'] };
  let auditor: Browser;

  beforeAll(async () => {
    await made.assistant('wider', { capsule: 'household', manifest: next });
    await environment.policyServer.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
    await running(environment, NAMESPACE, runs);
    const token = await environment.person('auditor', [{ ...reader, resources: ['capsules', 'assistants'] }]);
    const rules = [
      { apiGroups: ['apps'], resources: ['deployments'], verbs: ['get'] },
      { apiGroups: [''], resources: ['configmaps'], verbs: ['get'] },
    ];
    await environment.grant('auditor', rules, NAMESPACE);
    auditor = await environment.signedInWith(token);
  });

  it('are shown against the running one, powers first, and then every change', async () => {
    const { text } = await auditor.get(at('wider'));
    const order = [
      '1.0.0 → 1.1.0',
      'new it may reach the host new.org',
      'no longer it may reach the host old.org',
      'All 3 changes',
      'Changed /platform/version 1.0.0 1.1.0',
      'Added /network/allowed_hosts – new.org',
      'Removed /network/allowed_hosts old.org –',
    ].map((says) => text.indexOf(says));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(order).not.toContain(-1);
  });

  it('are shown although a change of the id is refused, by which the pods have another one', async () => {
    const [former, renamed] = [manifest('former'), manifest('renamed')];
    const status = {
      manifest: { id: 'former', version: '1.0.0', digest: `sha256:${manifestDigest(former)}` },
    };
    await made.assistant('former', { capsule: 'household', manifest: renamed }, undefined, status);
    await running(environment, NAMESPACE, former);
    const { text } = await auditor.get(at('former'));
    expect(text).toContain('Changed /platform/id former renamed');
    expect(text).not.toContain('It does not run yet');
  });

  it('are not shown against what another Assistant runs that took the same id first', async () => {
    await made.assistant('twin', { capsule: 'household', manifest: runs }, [
      condition('Ready', 'False', 'DuplicateIdentifier'),
    ]);
    const { text } = await auditor.get(at('twin'));
    expect(text).toContain('It does not run yet');
    expect(text).not.toContain('Exactly this manifest runs');
  });

  it('are hidden from a person who may not see the Capsule, and the page says so', async () => {
    const token = await environment.person('stranger', [{ ...reader, resources: ['assistants'] }]);
    const { status, text } = await (await environment.signedInWith(token)).get(at('wider'));
    expect(status).toBe(200);
    expect(text).toContain('You may not see the running manifest');
    expect(text).not.toContain('It does not run yet');
  });
});

describe('a stored input', () => {
  const SECRETS = '/api/v1/namespaces/home/secrets';
  const field = `${at('asking')}/inputs/bank`;
  const secretOf = async () => made.get(`${SECRETS}/household.asking.bank`);
  const entered = {
    [ANNOTATION.enteredFor]: expect.stringMatching(new RegExp(`^${inputDigest()} \\S{16}$`)),
  };
  let keeper: Browser;

  beforeAll(async () => {
    await environment.grant('admin', [
      { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
    ]);
    keeper = await environment.signedIn('admin');
  });

  it('is refused at its field if it is invalid, and shown nowhere', async () => {
    const page = await keeper.send(await keeper.get(at('asking')), field, { value: 'aaaa' });
    expect(page.status).toBe(422);
    expect(page.text).toContain('is too easy to guess');
    expect(page.html).toMatch(/<p class="problem" id="input-bank-problem" role="alert">/);
    expect(page.html).not.toContain('aaaa');
  });

  it('is stored in the form that the operator accepts, bound, replaced, and never read back', async () => {
    const [first, second] = ['S3cret-of-the-bank', 'An0ther-of-the-bank'];
    const page = await keeper.send(await keeper.get(at('asking')), field, { value: first });
    expect(page.status).toBe(200);
    const secret = await secretOf();
    expect(secret).toMatchObject({
      type: 'platform.space/stored-input',
      metadata: { labels: { 'platform.space/capsule': 'household' }, annotations: entered },
      data: { value: Buffer.from(first).toString('base64') },
    });
    const { spec } = await made.get('/apis/platform.space/v1/namespaces/home/assistants/asking');
    expect(spec.storedInputs).toEqual({
      bank: { secretKeyRef: { name: 'household.asking.bank', key: 'value' } },
    });
    const again = await keeper.send(page, field, { value: second });
    expect(page.text.match(/Stored input bank entered/g)).toHaveLength(1);
    expect(
      again.text.match(/Stored input bank entered [-0-9: ]+ UTC By system:serviceaccount:home:admin/g),
    ).toHaveLength(2);
    expect((await secretOf()).data).toEqual({ value: Buffer.from(second).toString('base64') });
    for (const value of [first, second]) {
      expect(page.html + again.html).not.toContain(value);
      expect(environment.log.join('')).not.toContain(value);
    }
  });

  it('is recorded once for each entry, although each form was sent twice', async () => {
    await made.assistant('twofold', {
      capsule: 'household',
      manifest: manifest('twofold', { stored_inputs: { bank: input() } }),
    });
    // The first entry is also bound.
    for (const value of ['S3cret-of-the-bank', 'An0ther-of-the-bank'])
      await sentTwice(keeper, at('twofold'), `${at('twofold')}/inputs/bank`, { value });
    const { text } = await keeper.get(at('twofold'));
    expect(text.match(/Stored input bank entered/g)).toHaveLength(2);
  });

  it('has the digest of its definition, new with each entry, also with the same value and if somebody else created the Secret', async () => {
    await made.assistant('same', {
      capsule: 'household',
      manifest: manifest('same', { stored_inputs: { bank: input() } }),
      storedInputs: { bank: { secretKeyRef: { name: 'by-hand', key: 'value' } } },
    });
    const value = 'S3cret-of-the-bank';
    const data = { value: Buffer.from(value).toString('base64') };
    const labels = { 'platform.space/capsule': 'household' };
    const type = 'platform.space/stored-input';
    await environment.policyServer.create(SECRETS, { metadata: { name: 'by-hand', labels }, type, data });
    const entries = new Set<string>();
    for (let times = 1; times <= 3; times += 1) {
      const action = `${at('same')}/inputs/bank`;
      expect((await keeper.send(await keeper.get(at('same')), action, { value })).status).toBe(200);
      const { metadata, data: held } = await made.get(`${SECRETS}/by-hand`);
      expect(held).toEqual(data);
      expect(metadata.annotations).toMatchObject(entered);
      entries.add(metadata.annotations[ANNOTATION.enteredFor]);
      expect(entries.size).toBe(times);
      if (times === 1)
        await environment.policyServer.server.client.call({
          ...{ method: 'PATCH', path: `${SECRETS}/by-hand`, contentType: 'application/merge-patch+json' },
          body: { metadata: { annotations: { team: 'books' } } },
        });
      else expect(metadata.annotations['team']).toBe('books');
    }
  });

  it('is not stored for another host than the person saw, or into another Secret', async () => {
    const bank = { secretKeyRef: { name: 'moved', key: 'value' } };
    await made.assistant('elsewhere', {
      capsule: 'household',
      manifest: manifest('elsewhere', { stored_inputs: { bank: input() } }),
      storedInputs: { bank },
    });
    const secrets = async () => JSON.stringify((await made.get(SECRETS)).items);
    const before = await secrets();
    const changes = [
      [
        { manifest: { stored_inputs: { bank: { host: 'api.evil.org' } } } },
        'now defines the input differently',
      ],
      [
        { storedInputs: { bank: { secretKeyRef: { name: 'moved-again' } } } },
        'The Assistant now names another Secret',
      ],
    ] as const;
    for (const [spec, says] of changes) {
      const page = await keeper.get(at('elsewhere'));
      await made.patch('assistants', 'elsewhere', { spec });
      const late = await keeper.send(page, `${at('elsewhere')}/inputs/bank`, { value: 'S3cret-of-the-bank' });
      expect([late.status, late.text]).toEqual([409, expect.stringContaining(says)]);
      expect(late.text).toContain('so nothing was stored');
      expect(await secrets()).toBe(before);
    }
  });

  it('may have the name of a property of every object, and does not count as entered', async () => {
    const asks = manifest('named', { stored_inputs: { constructor: input(), bank: input() } });
    const bank = { secretKeyRef: { name: 'of-the-bank', key: 'value' } };
    await made.assistant('named', {
      capsule: 'household',
      manifest: asks,
      storedInputs: { bank },
    });
    let page = await keeper.get(at('named'));
    expect(page.status).toBe(200);
    expect(page.html).toMatch(/<label for="input-constructor">Value</);
    expect(page.text).toContain('not entered yet');
    page = await keeper.send(page, `${at('named')}/inputs/constructor`, { value: 'q7Xz-19f2-Lm40-tt81' });
    expect(page.text).toContain('in the Secret household.named.constructor');
  });

  it('overwrites no Secret of another Assistant that took the same id first', async () => {
    const secret = `${SECRETS}/household.shared.bank`;
    const asks = manifest('shared', { stored_inputs: { bank: input() } });
    await made.assistant('shared', { capsule: 'household', manifest: asks });
    const [value, other] = ['S3cret-of-the-bank', 'An0ther-of-the-bank'];
    await keeper.send(await keeper.get(at('shared')), `${at('shared')}/inputs/bank`, { value });
    await made.assistant('double', { capsule: 'household', manifest: asks }, [
      condition('Accepted', 'False', 'DuplicateIdentifier', 'Another Assistant has this id.'),
    ]);
    const page = await keeper.get(at('double'));
    expect(page.forms.map(({ action }) => action)).not.toContain(`${at('double')}/inputs/bank`);
    expect(page.text).toContain('Another Assistant of the Capsule has the same id');
    const { definition = '', secret: named = '' } =
      (await keeper.get(at('shared'))).forms.find(({ action }) => action.endsWith('/inputs/bank'))?.fields ??
      {};
    const fields = { value: other, definition, secret: named };
    const refused = await forged(environment, keeper, `${at('double')}/inputs/bank`, fields);
    expect(refused.status).toBe(409);
    expect((await made.get(secret)).data).toEqual({ value: Buffer.from(value).toString('base64') });
  });

  it('overwrites no Secret that is not a stored input of its Capsule', async () => {
    const others = [
      {
        metadata: { name: 'tls', labels: { 'platform.space/capsule': 'household' } },
        type: 'Opaque',
        data: { value: 'b3JpZ2luYWw=' },
      },
      {
        metadata: { name: 'foreign', labels: { 'platform.space/capsule': 'broken' } },
        type: 'platform.space/stored-input',
        data: { value: 'b3JpZ2luYWw=' },
      },
    ];
    for (const secret of others) {
      await environment.policyServer.create(SECRETS, secret);
      const { name } = secret.metadata;
      await made.patch('assistants', 'asking', {
        spec: { storedInputs: { bank: { secretKeyRef: { name, key: 'value' } } } },
      });
      const page = await keeper.send(await keeper.get(at('asking')), field, { value: 'S3cret-of-the-bank' });
      expect(page.status, name).toBe(409);
      expect((await made.get(`${SECRETS}/${name}`)).data).toEqual(secret.data);
    }
  });
});
