import { manifestDigest } from '@space/manifests';
import type { OwnStore } from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import type { TestEnvironment } from './environment.ts';
import { startReplica, type TestReplica } from './gateway.ts';
import { node, probe, program } from './machinery.ts';
import { running } from './running.ts';
import { condition, HOSTILE, input, type Subjects, subjects } from './subjects.ts';
import { startWithStore } from './with-store.ts';

/** A Space with something of everything, and the pages that show it. */
export interface Scene {
  readonly environment: TestEnvironment;
  readonly made: Subjects;
  readonly store: OwnStore;
  readonly pages: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

const HOUSEHOLD = '/capsules/household';
/** The namespace of that Capsule. */
const INSIDE = 'home-household-0a1b2c3d';
const about = (id: string, name: string, summary: string) => ({
  platform: { ...manifest(id).platform, name, summary, description: `${summary} It asks before it acts.` },
});
const at = (assistant: string) => `${HOUSEHOLD}/assistants/${assistant}`;

/** What there is to look at, whatever the scene is made for. */
const PAGES = {
  repairs: '/',
  capsules: '/capsules',
  'capsules-found': '/capsules?name=work',
  'capsules-not-found': '/capsules?name=nowhere',
  capsule: HOUSEHOLD,
  'capsule-broken': '/capsules/workshop',
  'capsule-full': '/capsules/studio',
  assistant: at('ledger'),
  'assistant-waiting': at('post'),
  credentials: `${HOUSEHOLD}/credentials`,
  sandbox: '/sandbox',
  diagnostics: '/diagnostics',
  missing: '/capsules/nowhere',
};

const BANK = input({ label: 'Key of your bank', description: 'Reads balances and rates, and pays nothing.' });

/** Without `isHostile` there are no attacks, as for pictures in the documentation. */
export async function setScene({ isHostile = true } = {}): Promise<Scene> {
  const replica = await startReplica();
  const withStore = await startWithStore(replica.environment);
  const { environment, store } = withStore;
  const made = subjects(environment);
  await capsules(made);
  await assistants(made, environment);
  if (isHostile) await attacker(made);
  await called(made, replica, isHostile);
  await happened(environment);
  await sandbox(environment);
  await environment.administer('admin');
  await withStore.principal('household');
  const close = async () => {
    await withStore.close();
    await replica.close();
  };
  const pages = { ...PAGES, ...(isHostile ? { 'assistant-hostile': at('helper') } : {}) };
  return { environment, made, store, pages, close };
}

async function capsules(made: Subjects): Promise<void> {
  const well = ['Accepted', 'NamespaceReady', 'DatabaseReady', 'ObjectStoreReady'];
  const ready = [condition('Ready', 'True', 'Ready', 'Everything it needs is there.')];
  const all = [
    ...ready,
    condition(
      'SandboxReady',
      'True',
      'SandboxAvailable',
      'RuntimeClass "gvisor" has handler "runsc", and a probe ran in the sandbox.',
    ),
    condition(
      'NetworkReady',
      'True',
      'Ready',
      'Network policies deny everything except what an Assistant needs, and a probe has confirmed it.',
    ),
    ...well.map((type) => condition(type, 'True', 'Provisioned', 'Nothing is to do.')),
  ];
  const usage = {
    namespace: INSIDE,
    usage: { database: '920Mi', storage: '3Gi' },
    assistants: { total: 4, ready: 2 },
  };
  const quota = {
    database: '1Gi',
    storage: '10Gi',
    assistants: 5,
    cpu: '2',
    memory: '4Gi',
    pods: 20,
  };
  const integrations = { mail: { scopes: ['read', 'send'] }, calendar: { scopes: ['read'] } };
  await made.capsule(
    'household',
    { displayName: 'The Müller household', approval: 'manual', quota, integrations },
    all,
    usage,
  );
  await made.capsule('workshop', { displayName: 'Workshop', quota: { database: '512Mi' } }, [
    condition(
      'Ready',
      'False',
      'BrokerUnreachable',
      'The database broker gave no answer for 40 s. Look at its pods: kubectl -n home-services get pods -l app=db-broker',
    ),
    condition('DatabaseReady', 'False', 'BrokerUnreachable', 'Start the database broker.'),
    condition('NamespaceReady', 'True', 'Provisioned', 'Nothing is to do.'),
  ]);
  await made.capsule('archive', { displayName: 'Old papers', suspend: true }, [
    condition('Ready', 'False', 'Suspended', 'Somebody suspended it; resume it when it is wanted.'),
  ]);
  await made.capsule('studio', { displayName: 'Photographs', quota: { database: '256Mi' } }, [
    condition(
      'Ready',
      'False',
      'QuotaExceeded',
      'Its databases hold 270Mi, more than spec.quota.database allows (256Mi). Raise it, or delete something.',
    ),
  ]);
  await made.capsule('school', { displayName: 'School' }, ready, {
    usage: { database: '40Mi', storage: '120Mi' },
    assistants: { total: 0, ready: 0 },
  });
}

async function assistants(made: Subjects, environment: TestEnvironment): Promise<void> {
  const ledger = manifest('ledger', {
    ...about('ledger', 'Ledger', 'Keeps the household’s books.'),
    network: { allowed_hosts: ['rates.ecb.europa.eu'] },
    stored_inputs: { bank: BANK },
    integrations: { mail: { scopes: ['read'] } },
  });
  const key = (name: string) => ({ bank: { secretKeyRef: { name, key: 'value' } } });
  await made.assistant(
    'ledger',
    { capsule: 'household', manifest: ledger, storedInputs: key('household.ledger.bank') },
    undefined,
    { usage: { database: '312Mi', storage: '1536Mi' } },
    { 'platform.space/installed-by': 'admin' },
  );
  const digest = `sha256:${manifestDigest(ledger as never)}`;
  await made.patch('assistants', 'ledger', {
    metadata: {
      annotations: { 'platform.space/approved': digest, 'platform.space/approved-by': `${digest} admin` },
    },
  });
  const post = (version: string, allowed_hosts: readonly string[], scopes: readonly string[]) => {
    const { platform } = about('post', 'Post', 'Sorts the letters and drafts the answers.');
    const rest = { network: { allowed_hosts }, integrations: { mail: { scopes } } };
    return manifest('post', { platform: { ...platform, version }, ...rest });
  };
  await environment.policyServer.create('/api/v1/namespaces', { metadata: { name: INSIDE } });
  await running(environment, INSIDE, ledger);
  await made.assistant(
    'post',
    {
      capsule: 'household',
      manifest: post('1.4.0', ['api.post.example', 'tracking.post.example'], ['read', 'send']),
    },
    [
      condition(
        'Ready',
        'False',
        'ApprovalMissing',
        'Somebody has to look at what it may do, and approve it.',
      ),
      condition('IntegrationsGranted', 'False', 'ApprovalMissing', 'Approve its manifest.'),
      condition('Accepted', 'True', 'Valid', 'The manifest is valid.'),
    ],
  );
  await running(environment, INSIDE, post('1.3.0', ['api.post.example', 'old.post.example'], ['read']));
  await made.assistant(
    'asking',
    {
      capsule: 'household',
      manifest: manifest('asking', {
        ...about('asking', 'Saver', 'Finds what is paid twice.'),
        stored_inputs: { bank: BANK },
      }),
    },
    [condition('Ready', 'False', 'InputsMissing', 'No Secret is bound for: bank.')],
  );
  await made.assistant('garden', { capsule: 'household', suspend: true }, [
    condition('Ready', 'False', 'Suspended', 'Somebody suspended it.'),
  ]);
}

/** Somebody who writes what deceives wherever a manifest lets them. */
async function attacker(made: Subjects): Promise<void> {
  const text = HOSTILE.replace('\u202e', '');
  const platform = {
    ...manifest('helper').platform,
    name: text.slice(0, 80),
    description: text,
    genesis: HOSTILE,
  };
  await made.assistant(
    'helper',
    {
      capsule: 'household',
      manifest: manifest('helper', {
        platform,
        network: { allowed_hosts: ['p\u0430ypal.example', 'xn--pypal-4ve.example'] },
        stored_inputs: { bank: input({ label: text.slice(0, 80), description: text }) },
      }),
    },
    [condition('Ready', 'False', 'ManifestInvalid', HOSTILE)],
  );
}

/** An Assistant that asks for more than it was let, in look-alikes too where somebody attacks. */
async function called(made: Subjects, replica: TestReplica, isHostile: boolean): Promise<void> {
  const { metadata } = await made.get('/apis/platform.space/v1/namespaces/home/assistants/ledger');
  const about = { capsule_id: 'household', app_id: 'ledger', assistant_uid: metadata.uid };
  const deceives = isHostile ? ['xn--pypal-4ve.example:443'] : [];
  const refused = ['tracking.example:443', ...deceives, '10.0.0.1:8443'];
  await replica.call(about, ['rates.ecb.europa.eu'], ['rates.ecb.europa.eu:443', ...refused, ...refused]);
}

async function happened({ policyServer }: TestEnvironment): Promise<void> {
  const said: readonly [string, string, string, string, string][] = [
    ['Capsule', 'household', 'Normal', 'Provisioned', 'Namespace, database and files are there.'],
    ['Capsule', 'household', 'Warning', 'QuotaNear', 'The database holds nine tenths of what it may.'],
    ['Assistant', 'ledger', 'Warning', 'StartFailed', 'It ended within 10 s, with the exit code 1.'],
    ['Assistant', 'ledger', 'Normal', 'Started', 'It answers.'],
  ];
  for (const [index, [kind, name, type, reason, note]] of said.entries())
    await policyServer.create('/apis/events.k8s.io/v1/namespaces/home/events', {
      metadata: { name: `event-${index}` },
      regarding: { apiVersion: 'platform.space/v1', kind, name, namespace: 'home' },
      eventTime: `2026-11-22T2${index}:14:00.000000Z`,
      type,
      reason,
      note,
      action: 'Reconcile',
      reportingController: 'platform.space/operator',
      reportingInstance: 'operator-0',
    });
}

/** What an administrator of the cluster sees: nodes, probes, programs. */
async function sandbox(environment: TestEnvironment): Promise<void> {
  await node(environment, 'node-1', ['runc', 'runsc']);
  await node(environment, 'node-2', ['runc', 'runsc']);
  for (const name of ['node-1', 'node-2']) {
    await probe(environment, 'sandbox-probe', name);
    await probe(environment, 'network-probe', name);
  }
  for (const [name, namespace, ready] of [
    ['operator', 'home-system', 2],
    ['db-broker', 'home-services', 0],
    ['egress-gateway', 'home-services', 2],
    ['objectstore-broker', 'home-services', 2],
  ] as const)
    await program(environment, [namespace, name], ready);
}
