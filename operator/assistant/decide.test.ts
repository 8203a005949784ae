import { type AssistantSpec, checkManifest, type Manifest, manifestDigest } from '@space/manifests';
import { describe, expect, test } from 'vitest';
import { type Finding, no, toConditions, unknown, yes } from '../conditions.ts';
import type { Assistant, Capsule } from '../kinds.ts';
import { ANNOTATION, ASSISTANT_FINALIZER } from '../names.ts';
import { manifest } from '../testing/manifest.ts';
import { names } from '../testing/names.ts';
import * as decide from './decide.ts';
import { describeWorkload } from './identity.ts';
import { type PlanFacts, planAssistant } from './plan.ts';

const text = ({ status, reason }: { status: string; reason: string }) => `${status} ${reason}`;
const valid = checkManifest(manifest('ledger'));
const parsed = (changes: Record<string, unknown>): Manifest => {
  const result = checkManifest(manifest('ledger', changes));
  if (!result.ok) throw new Error(JSON.stringify(result.errors));
  return result.manifest;
};
const spec = (changes: Partial<AssistantSpec> = {}): AssistantSpec => ({
  capsule: 'home',
  image: 'registry.test/ledger:1',
  manifest: manifest('ledger') as unknown as AssistantSpec['manifest'],
  ...changes,
});
const assistant = (name: string, created: string, changes: Partial<AssistantSpec> = {}): Assistant => ({
  metadata: { name, uid: name, creationTimestamp: created },
  spec: spec(changes),
});
const capsuleWith = (
  conditions: Record<string, string>,
  changes: Partial<Capsule['spec']> = {},
  metadata = {},
): Capsule => ({
  metadata: { name: 'home', ...metadata },
  spec: changes,
  status: {
    conditions: Object.entries(conditions).map(([type, status]) => ({
      type,
      status: status as 'True',
      reason: 'R',
      message: `${type} message`,
      lastTransitionTime: '',
    })),
  },
});
const inPlace = capsuleWith({ NamespaceReady: 'True', NetworkReady: 'True', DatabaseReady: 'True' });

describe('a spec is accepted', () => {
  test('when it is valid', () => expect(text(decide.decideAccepted(spec(), valid))).toBe('True Ready'));
  test.each<[string, AssistantSpec, unknown, string, string]>([
    [
      'with an unknown property in its manifest',
      spec(),
      { ...manifest('ledger'), extra: 1 },
      'False ManifestInvalid',
      '/extra',
    ],
    ['with a reserved id', spec(), manifest('postgres'), 'False ManifestInvalid', '/platform/id'],
    [
      'with a variable that the platform sets',
      spec({ env: [{ name: 'DATABASE_URL', value: 'x' }] }),
      manifest('ledger'),
      'False SpecInvalid',
      '/env/0/name',
    ],
    [
      'with a variable that the platform sets for what asks for the outside',
      spec({ env: [{ name: 'EGRESS_URL', value: 'x' }] }),
      manifest('ledger'),
      'False SpecInvalid',
      '/env/0/name: must not be "EGRESS_URL", which the platform keeps for itself',
    ],
    [
      'with a variable of a stored input',
      spec({ env: [{ name: 'INPUT_BANK_URL', value: 'x' }] }),
      manifest('ledger'),
      'False SpecInvalid',
      '/env/0/name: must not be INPUT_…_URL, which the platform keeps for itself; found "INPUT_BANK_URL"',
    ],
    [
      'with a stored input that nobody asked for',
      spec({ storedInputs: { bank: { secretKeyRef: { name: 's', key: 'k' } } } }),
      manifest('ledger'),
      'False StoredInputUnknown',
      '"bank"',
    ],
  ])('not %s', (_, given, value, expected, told) => {
    const finding = decide.decideAccepted(given, checkManifest(value));
    expect(text(finding)).toBe(expected);
    expect(finding.message).toContain(told);
  });
});

test('an id that was accepted cannot become another', () => {
  const known = { id: 'journal', version: '1.0.0', digest: '' };
  const renamed = { ...assistant('a', ''), status: { manifest: known } };
  expect(decide.decideIdentity(renamed)?.message).toContain('"journal"');
  expect(
    decide.decideIdentity({ ...renamed, status: { manifest: { ...known, id: 'ledger' } } }),
  ).toBeUndefined();
  expect(decide.decideIdentity(assistant('a', ''))).toBeUndefined();
});

describe('two Assistants with one id', () => {
  const old = assistant('old', '2026-01-01T00:00:00Z');
  // Its UID is the smaller one, which counts only within one second.
  const young = assistant('later', '2026-01-02T00:00:00Z');
  const twin = assistant('another', '2026-01-01T00:00:00Z');
  const owner = (who: Assistant, registered: string | undefined, rivals = [old, young]) =>
    decide.decideOwner(who, { registered, rivals });
  test('give the id to the older one', () => {
    expect(owner(old, undefined)).toBeUndefined();
    expect(owner(young, undefined)?.message).toContain('"old"');
  });
  test('give the id to the smaller UID if both are of the same second', () => {
    expect(owner(twin, undefined, [old, twin])).toBeUndefined();
    expect(owner(old, undefined, [old, twin])?.reason).toBe('DuplicateIdentifier');
  });
  test('leave the id, if the record of its owner is lost, with the one that was accepted', () => {
    const placed = { ...old, metadata: { ...old.metadata, finalizers: [ASSISTANT_FINALIZER] } };
    expect(owner(placed, undefined, [placed, twin])).toBeUndefined();
    expect(owner(twin, undefined, [placed, twin])?.message).toContain('belongs to Assistant "old"');
  });
  test('leave the id with its registered owner, older or not', () => {
    expect(owner(young, 'later')).toBeUndefined();
    expect(owner(old, 'later')?.message).toContain('"later"');
  });
  test('say what can be done: an id is immutable, and one that is being deleted needs no other deletion', () => {
    expect(owner(young, 'old')?.message).toContain(
      'Create this one again with another id, or delete that one.',
    );
    const going = { ...old, metadata: { ...old.metadata, deletionTimestamp: '2026-01-03T00:00:00Z' } };
    for (const registered of ['old', undefined]) {
      const message = owner(young, registered, [going, young])?.message;
      expect(message).toContain('"old" of this Capsule, which is being deleted');
      expect(message).not.toContain('delete that one');
    }
  });
  test('do not silently take over from an owner that was removed without its clean-up', () => {
    expect(owner(old, 'ghost')?.message).toContain('Label Secret "ledger-database"');
  });
});

describe('a Capsule', () => {
  test.each<[string, Capsule | undefined, string]>([
    ['in place is ready', inPlace, 'True Ready'],
    ['that is not there', undefined, 'False CapsuleNotFound'],
    [
      'that is going takes nobody',
      { ...inPlace, metadata: { name: 'home', deletionTimestamp: 'now' } },
      'False Deleting',
    ],
    ['that was never looked at', { ...inPlace, status: {} }, 'False CapsuleNotReady'],
    [
      'without its database',
      capsuleWith({ NamespaceReady: 'True', NetworkReady: 'True', DatabaseReady: 'False' }),
      'False CapsuleNotReady',
    ],
    [
      'without its object store, where the Space has one',
      capsuleWith({
        NamespaceReady: 'True',
        NetworkReady: 'True',
        DatabaseReady: 'True',
        ObjectStoreReady: 'False',
      }),
      'False CapsuleNotReady',
    ],
    [
      'with an object store and without a database',
      capsuleWith({ NamespaceReady: 'True', NetworkReady: 'True', ObjectStoreReady: 'True' }),
      'False CapsuleNotReady',
    ],
    [
      'in place is ready though the gate is closed',
      capsuleWith({
        SandboxReady: 'False',
        NamespaceReady: 'True',
        NetworkReady: 'True',
        DatabaseReady: 'True',
        Ready: 'False',
      }),
      'True Ready',
    ],
  ])('%s', (_, given, expected) => expect(text(decide.decideCapsule('home', given))).toBe(expected));

  test('that is not ready says why with the message of its own condition', () => {
    const finding = decide.decideCapsule('home', capsuleWith({ NamespaceReady: 'True', Ready: 'False' }));
    expect(finding.message).toBe('Capsule "home" is not ready. Ready message');
  });

  test('does not evict an Assistant that it has already accepted', () => {
    const first = assistant('z', '2026-01-01T00:00:00Z');
    const placed = { ...first, metadata: { ...first.metadata, finalizers: [ASSISTANT_FINALIZER] } };
    const twin = assistant('a', '2026-01-01T00:00:00Z');
    const limited = capsuleWith({}, { quota: { assistants: 1 } });
    expect(decide.decideAssistantQuota(placed, limited, [placed, twin])).toBeUndefined();
    expect(decide.decideAssistantQuota(twin, limited, [placed, twin])?.reason).toBe('QuotaExceeded');
  });

  test('counts Assistants that are being deleted, and says so', () => {
    const going = assistant('a', '2026-01-01T00:00:00Z');
    const all = [{ ...going, metadata: { ...going.metadata, deletionTimestamp: '2026-01-03T00:00:00Z' } }];
    const next = assistant('b', '2026-01-02T00:00:00Z');
    const told = (most: number) =>
      decide.decideAssistantQuota(next, capsuleWith({}, { quota: { assistants: most } }), [...all, next])
        ?.message;
    expect(told(1)).toContain('counting those that are being deleted');
    expect(told(0)).toContain('as it may have (0), counting');
    expect(told(2)).toBeUndefined();
  });

  test('accepts as many Assistants as its quota allows, the older ones first', () => {
    const all = ['1', '2', '3'].map((n) => assistant(`a${n}`, `2026-01-0${n}T00:00:00Z`));
    const limited = capsuleWith({}, { quota: { assistants: 2 } });
    expect(all.map((one) => decide.decideAssistantQuota(one, limited, all)?.reason)).toEqual([
      undefined,
      undefined,
      'QuotaExceeded',
    ]);
    expect(all.map((one) => decide.decideAssistantQuota(one, inPlace, all))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

test('an integration needs each of its scopes granted by name', () => {
  const asked = parsed({ integrations: { mail: { scopes: ['read', 'send'] }, files: { scopes: ['list'] } } });
  const granted = { mail: { scopes: ['read', 'send'] }, files: { scopes: ['list', 'more'] } };
  expect(text(decide.decideIntegrations(asked, granted))).toBe('True Ready');
  expect(decide.decideIntegrations(asked, { mail: { scopes: ['read'] } }).message).toContain(
    'mail (send); files (list)',
  );
  expect(text(decide.decideIntegrations(asked, undefined))).toBe('False ScopesNotGranted');
});

describe('with manual approval', () => {
  const capsule = capsuleWith({}, { approval: 'manual' });
  const me = assistant('ledger', '');
  const described = (changes: Record<string, unknown>) => describeWorkload(names, me, parsed(changes));
  const asks = described({ integrations: { mail: { scopes: ['read'] } } });
  const approved = (digest: string) => ({
    ...me,
    metadata: { ...me.metadata, annotations: { [ANNOTATION.approved]: digest } },
  });
  const digest = `sha256:${manifestDigest(asks.manifest)}`;
  test('a manifest that asks for a power waits until its digest is approved', () => {
    expect(decide.decideApproval(me, asks, capsule)?.message).toContain(`platform.space/approved=${digest}`);
    expect(decide.decideApproval(approved(digest), asks, capsule)).toBeUndefined();
  });
  test('the approval of one manifest does not count for another', () => {
    const more = described({ integrations: { mail: { scopes: ['read', 'send'] } } });
    expect(decide.decideApproval(approved(digest), more, capsule)?.reason).toBe('ApprovalMissing');
  });
  test('a manifest without powers needs no approval', () => {
    expect(decide.decideApproval(me, described({}), capsule)).toBeUndefined();
    expect(decide.decideApproval(me, asks, inPlace)).toBeUndefined();
  });
});

describe('the plan', () => {
  const me = assistant('ledger', '2026-01-01T00:00:00Z');
  const facts: PlanFacts = {
    assistant: me,
    check: valid,
    workload: describeWorkload(names, me, parsed({})),
    capsule: inPlace,
    sandbox: yes('SandboxAvailable', 'There is a sandbox.'),
    neighbours: [me],
    claim: { registered: undefined, rivals: [me] },
    inputsBound: yes('Ready', 'All stored inputs are bound.'),
    provisioned: false,
    objects: undefined,
  };
  test('runs an Assistant whose conditions are all True', () => {
    const plan = planAssistant(facts);
    expect(plan).toMatchObject({ accepted: true, suspended: false, run: true });
    expect(Object.keys(plan.findings)).toEqual([
      'Accepted',
      'CapsuleReady',
      'SandboxReady',
      'IntegrationsGranted',
      'InputsBound',
      'DatabaseReady',
      'EgressReady',
      'WorkloadReady',
    ]);
  });
  test.each<[string, Partial<PlanFacts>]>([
    ['without a Capsule', { capsule: undefined }],
    ['while the gate is closed', { sandbox: no('RuntimeClassNotFound', 'There is none.') }],
    ['while the gate is not known', { sandbox: unknown('ClusterUnreadable', 'It cannot be read.') }],
    ['with an invalid manifest', { check: checkManifest({}), workload: undefined }],
    ['with a stored input that is not there', { inputsBound: no('InputSecretNotFound', 'It is not there.') }],
    ['with an id that is another’s', { claim: { registered: 'other', rivals: [me] } }],
    ['when it is suspended', { assistant: { ...me, spec: spec({ suspend: true }) } }],
    ['when its Capsule is suspended', { capsule: { ...inPlace, spec: { suspend: true } } }],
  ])('runs nothing %s', (_, changes) => expect(planAssistant({ ...facts, ...changes }).run).toBe(false));
  test.each<[string, PlanFacts['provisioned'], Finding, string]>([
    ['keeps what it said', undefined, yes('Ready', ''), 'True Ready'],
    ['keeps a trouble', undefined, no('BrokerUnreachable', ''), 'False BrokerUnreachable'],
    ['waits if no broker was asked', undefined, unknown('Waiting', ''), 'Unknown Waiting'],
    ['waits if the claim is there', false, yes('Ready', ''), 'Unknown Waiting'],
  ])('while the claim is lost, the database %s', (_, provisioned, said, expected) => {
    const status = { conditions: toConditions({ DatabaseReady: said }, [], 1, () => '') };
    const plan = planAssistant({ ...facts, provisioned, assistant: { ...me, status } });
    expect(text(plan.findings['DatabaseReady'] ?? no('Waiting', ''))).toBe(expected);
  });
  test.each<[string, string | undefined, Finding, string]>([
    ['keeps that a broker was asked', 'ledger', unknown('Starting', ''), 'Unknown Starting'],
    ['keeps no trouble', 'ledger', no('QuotaExceeded', ''), 'Unknown Starting'],
    ['keeps that there is one', 'ledger', yes('Ready', ''), 'True Ready'],
    ['waits if no broker was asked', 'ledger', no('WriteRefused', ''), 'Unknown Waiting'],
    ['waits if the claim is another’s', 'other', yes('Ready', ''), 'Unknown Waiting'],
  ])('while the claim has no URL, the database %s', (_, registered, said, expected) => {
    const status = { conditions: toConditions({ DatabaseReady: said }, [], 1, () => '') };
    const claim = { registered, rivals: [me] };
    const plan = planAssistant({ ...facts, claim, assistant: { ...me, status } });
    expect(text(plan.findings['DatabaseReady'] ?? no('Waiting', ''))).toBe(expected);
  });
  test.each<[Finding, string]>([
    [yes('Ready', ''), 'True Ready'],
    [no('BrokerUnreachable', ''), 'False BrokerUnreachable'],
    [no('WriteRefused', ''), 'Unknown Waiting'],
  ])('while its manifest names the id of another, the database is kept: %o', (said, expected) => {
    const conditions = toConditions({ DatabaseReady: said }, [], 1, () => '');
    const status = { manifest: { id: 'books', version: '1.0.0', digest: '' }, conditions };
    const claim = { registered: 'other', rivals: [me] };
    const plan = planAssistant({ ...facts, claim, assistant: { ...me, status } });
    expect(plan.accepted).toBe(false);
    expect(text(plan.findings['DatabaseReady'] ?? no('Waiting', ''))).toBe(expected);
  });
  describe('while the data of its Capsule is restored', () => {
    const capsule = {
      ...inPlace,
      metadata: { name: 'home', annotations: { [ANNOTATION.restoring]: 'now' } },
    };
    const missing = no('InputSecretNotFound', 'It is not there.');
    test('gives it database and files, whatever its pods would wait for, and no pods', () => {
      for (const inputsBound of [facts.inputsBound, missing]) {
        const plan = planAssistant({ ...facts, capsule, inputsBound });
        expect(plan).toMatchObject({ restoring: true, provisionForRestore: true, run: false });
        expect(text(plan.findings['WorkloadReady'] ?? missing)).toBe('False Restoring');
      }
    });
    test.each<[string, Partial<PlanFacts>]>([
      ['while the gate is closed', { sandbox: no('RuntimeClassNotFound', 'There is none.') }],
      ['with an id that is another’s', { claim: { registered: 'other', rivals: [me] } }],
      ['when it is suspended', { assistant: { ...me, spec: spec({ suspend: true }) } }],
    ])('gives it nothing %s', (_, changes) =>
      expect(planAssistant({ ...facts, capsule, ...changes })).toMatchObject({
        provisionForRestore: false,
        run: false,
      }),
    );
  });
  test('accepts an Assistant that is created suspended, in a Capsule that was never provisioned', () => {
    const capsule = { ...capsuleWith({}), spec: { suspend: true } };
    const plan = planAssistant({ ...facts, capsule });
    expect(text(plan.findings['CapsuleReady'] ?? no('Waiting', ''))).toBe('True Ready');
    expect(plan).toMatchObject({ accepted: true, suspended: true });
  });
});
