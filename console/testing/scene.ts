import { createHash } from 'node:crypto';
import { manifestDigest } from '@space/manifests';
import type { OwnStore } from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import type { TestEnvironment } from './environment.ts';
import { startReplica, type TestReplica } from './gateway.ts';
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
const about = (id: string, name: string, summary: string) => ({
  platform: { ...manifest(id).platform, name, summary, description: `${summary} It asks before it acts.` },
});
const at = (assistant: string) => `${HOUSEHOLD}/assistants/${assistant}`;

const PAGES = {
  repairs: '/',
  capsules: '/capsules',
  'capsules-found': '/capsules?name=work',
  'capsules-not-found': '/capsules?name=nowhere',
  capsule: HOUSEHOLD,
  'capsule-broken': '/capsules/workshop',
  assistant: at('ledger'),
  'assistant-waiting': at('post'),
  'assistant-hostile': at('helper'),
  credentials: `${HOUSEHOLD}/credentials`,
  sandbox: '/sandbox',
  diagnostics: '/diagnostics',
  missing: '/capsules/nowhere',
};

const BANK = input({ label: 'Key of your bank', description: 'Reads balances and rates, and pays nothing.' });

export async function setScene(): Promise<Scene> {
  const replica = await startReplica();
  const withStore = await startWithStore(replica.environment);
  const { environment, store } = withStore;
  const made = subjects(environment);
  await capsules(made);
  await assistants(made);
  await called(made, replica);
  await happened(environment);
  await sandbox(environment);
  await environment.administer('admin');
  await withStore.principal('household');
  const close = async () => {
    await withStore.close();
    await replica.close();
  };
  return { environment, made, store, pages: PAGES, close };
}

async function capsules(made: Subjects): Promise<void> {
  const well = ['Accepted', 'NamespaceReady', 'DatabaseReady', 'ObjectStoreReady', 'SandboxReady'];
  const ready = [condition('Ready', 'True', 'Ready', 'Everything it needs is there.')];
  const all = [...ready, ...well.map((type) => condition(type, 'True', 'Provisioned', 'Nothing is to do.'))];
  const usage = {
    namespace: 'home-household-0a1b2c3d',
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
      'The database broker gave no answer for 40 s. Look at its pods: kubectl -n home-services get pods -l app=db-broker.',
    ),
    condition('DatabaseReady', 'False', 'BrokerUnreachable', 'Start the database broker.'),
    condition('NamespaceReady', 'True', 'Provisioned', 'Nothing is to do.'),
  ]);
  await made.capsule('archive', { displayName: 'Old papers', suspend: true }, [
    condition('Ready', 'False', 'Suspended', 'Somebody suspended it; resume it when it is wanted.'),
  ]);
  await made.capsule('school', { displayName: 'School' }, ready, {
    usage: { database: '40Mi', storage: '120Mi' },
    assistants: { total: 0, ready: 0 },
  });
}

async function assistants(made: Subjects): Promise<void> {
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
  await made.assistant(
    'post',
    {
      capsule: 'household',
      manifest: manifest('post', {
        ...about('post', 'Post', 'Sorts the letters and drafts the answers.'),
        network: { allowed_hosts: ['api.post.example', 'tracking.post.example'] },
        integrations: { mail: { scopes: ['read', 'send'] } },
      }),
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
  await made.assistant('garden', { capsule: 'household', suspend: true }, [
    condition('Ready', 'False', 'Suspended', 'Somebody suspended it.'),
  ]);
}

/** An Assistant that asks for more than it was let, in look-alikes too. */
async function called(made: Subjects, replica: TestReplica): Promise<void> {
  const { metadata } = await made.get('/apis/platform.space/v1/namespaces/home/assistants/ledger');
  const about = { capsule_id: 'household', app_id: 'ledger', assistant_uid: metadata.uid };
  const refused = ['tracking.example:443', 'xn--pypal-4ve.example:443', '10.0.0.1:8443'];
  await replica.call(about, ['rates.ecb.europa.eu'], ['rates.ecb.europa.eu:443', ...refused, ...refused]);
}

async function happened({ judged }: TestEnvironment): Promise<void> {
  const said: readonly [string, string, string, string, string][] = [
    ['Capsule', 'household', 'Normal', 'Provisioned', 'Namespace, database and files are there.'],
    ['Capsule', 'household', 'Warning', 'QuotaNear', 'The database holds nine tenths of what it may.'],
    ['Assistant', 'ledger', 'Warning', 'StartFailed', 'It ended within 10 s, with the exit code 1.'],
    ['Assistant', 'ledger', 'Normal', 'Started', 'It answers.'],
  ];
  for (const [index, [kind, name, type, reason, note]] of said.entries())
    await judged.create('/apis/events.k8s.io/v1/namespaces/home/events', {
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
async function sandbox({ judged }: TestEnvironment): Promise<void> {
  await judged.create('/api/v1/nodes', { metadata: { name: 'node-1' } });
  await judged.server.client.call({
    method: 'PATCH',
    path: '/api/v1/nodes/node-1/status',
    contentType: 'application/merge-patch+json',
    body: {
      status: {
        nodeInfo: { containerRuntimeVersion: 'containerd://2.1.4' },
        runtimeHandlers: [{ name: 'runc' }, { name: 'runsc' }],
      },
    },
  });
  for (const [name, namespace, readyReplicas] of [
    ['operator', 'home-system', 2],
    ['db-broker', 'home-services', 0],
    ['egress-gateway', 'home-services', 2],
  ] as const) {
    const labels = { app: name };
    const image = `registry.example/space/${name}:0.1.0@sha256:${createHash('sha256').update(name).digest('hex')}`;
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
    await judged.create(path, {
      metadata: { name },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name, image }] } },
      },
    });
    await judged.server.client.call({
      method: 'PATCH',
      path: `${path}/${name}/status`,
      contentType: 'application/merge-patch+json',
      body: { status: { replicas: 2, readyReplicas, updatedReplicas: 2 } },
    });
  }
}
