import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { archive, BOUNDS } from '../diagnostics/archive.ts';
import { Download } from '../http/outcome.ts';
import { type Ask, KubernetesError } from '../kubernetes/client.ts';
import type { Browser } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { condition, input, subjects } from '../testing/subjects.ts';
import type { Visit } from '../visit.ts';
import { diagnosticsRoutes } from './diagnostics.ts';

const CANARY = 'canary-7d41c0ffee';
let environment: TestEnvironment;
let admin: Browser;

beforeAll(async () => {
  environment = await startEnvironment();
  const made = subjects(environment);
  const { create } = environment.policyServer;
  await create('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name: 'admin-looks' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'admin', namespace: 'home' }],
  });
  const annotations = { note: CANARY };
  const said = [condition('Ready', 'False', 'ApprovalMissing', CANARY)];
  await made.capsule('household', { displayName: CANARY }, said, { namespace: 'home-household-0a1b2c3d' });
  await made.assistant(
    'ledger',
    {
      capsule: 'household',
      env: [{ name: 'TOKEN', value: CANARY }],
      manifest: manifest('ledger', {
        platform: { ...manifest('ledger').platform, genesis: CANARY, description: CANARY },
        network: { allowed_hosts: ['rates.ecb.org'] },
        stored_inputs: { bank: input({ label: CANARY, description: CANARY }) },
      }),
    },
    said,
  );
  for (const name of ['capsules/household', 'assistants/ledger']) {
    const [plural = '', one = ''] = name.split('/');
    await made.patch(plural, one, { metadata: { annotations } });
  }
  await create('/api/v1/namespaces/home-services/serviceaccounts', { metadata: { name: 'default' } });
  const labels = { app: 'db-broker', 'platform.space/component': 'db-broker', [CANARY]: CANARY };
  const spec = {
    containers: [
      {
        name: 'db-broker',
        image: 'registry.test/db-broker:1',
        args: [CANARY],
        env: [{ name: 'KEY', value: CANARY }],
      },
    ],
  };
  await create('/api/v1/namespaces/home-services/pods', {
    metadata: { name: 'db-broker-0', labels, annotations },
    spec,
  });
  await create('/apis/apps/v1/namespaces/home-services/deployments', {
    metadata: { name: 'db-broker', annotations },
    spec: {
      selector: { matchLabels: { app: 'db-broker' } },
      template: { metadata: { labels, annotations }, spec },
    },
  });
  for (const namespace of ['home', 'home-system', 'home-services']) {
    await create(`/api/v1/namespaces/${namespace}/secrets`, {
      metadata: { name: 'of-somebody', annotations },
      data: { value: Buffer.from(CANARY).toString('base64') },
    });
    await create(`/apis/events.k8s.io/v1/namespaces/${namespace}/events`, {
      metadata: { name: 'event-1', annotations },
      regarding: { kind: 'Pod', name: 'db-broker-0', namespace },
      eventTime: '2026-11-22T20:14:00.000000Z',
      type: 'Warning',
      reason: 'BackOff',
      note: CANARY,
      action: 'Start',
      reportingController: 'kubelet',
      reportingInstance: 'node-1',
    });
  }
  await create('/api/v1/nodes', { metadata: { name: 'node-1', annotations } });
  admin = await environment.signedIn('admin');
});
afterAll(() => environment?.close());

/** The archive as somebody gets it, unpacked to one text and by file. */
async function fetched(browser: Browser) {
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const answer = await request(`${environment.origin}/diagnostics/archive`, { headers: { cookie } });
  const text = gunzipSync(Buffer.from(await answer.body.arrayBuffer())).toString();
  // Files of JSON end before the zeroes that fill their last block.
  const file = (name: string) => {
    const from = text.indexOf(`${name}\0`) + 512;
    return JSON.parse(text.slice(from, text.indexOf('\0', from)));
  };
  return { answer, text, file };
}

describe('the archive', () => {
  it('contains states, names, versions and times of what the person may read', async () => {
    const { answer, text, file } = await fetched(admin);
    expect(answer.headers['content-disposition']).toBe(
      'attachment; filename="space-home-diagnostics.tar.gz"',
    );
    expect(text).toContain('README.txt');
    expect(file('capsules/home.json')).toMatchObject([
      {
        metadata: { name: 'household' },
        status: { conditions: [{ type: 'Ready', status: 'False', reason: 'ApprovalMissing' }] },
      },
    ]);
    expect(file('assistants/home.json')).toMatchObject([
      { spec: { manifest: { platform: { id: 'ledger' }, network: { allowed_hosts: ['rates.ecb.org'] } } } },
    ]);
    expect(file('pods/home-services.json')).toMatchObject([{ metadata: { name: 'db-broker-0' } }]);
    expect(file('events/home-services.json')).toMatchObject([{ reason: 'BackOff', type: 'Warning' }]);
    expect(file('version.json').gitVersion).toMatch(/^v1\./);
    expect(file('contents.json')).toMatchObject({ by: 'system:serviceaccount:home:admin' });
    expect(file('contents.json').files).toContainEqual({
      file: 'pods/home-household-0a1b2c3d.json',
      items: 0,
    });
  });

  it('contains nothing of Secrets, environments, arguments, annotations, messages, notes and texts of manifests', async () => {
    const { text } = await fetched(admin);
    expect(text).not.toContain(CANARY);
    expect(text).not.toContain(Buffer.from(CANARY).toString('base64'));
  });

  it('leaves out what the person may not list, and says so', async () => {
    const { file } = await fetched(await environment.signedIn('viewer'));
    const { files } = file('contents.json');
    expect(files).toContainEqual({ file: 'pods/home-services.json', missing: 'not allowed' });
    expect(files).toContainEqual({ file: 'nodes.json', missing: 'not allowed' });
    expect(files).toContainEqual({ file: 'assistants/home.json', items: 1 });
    const nobody = (await fetched(await environment.signedIn('nobody'))).file('contents.json');
    expect(nobody.files.filter(({ items }: { items?: number }) => (items ?? 0) > 0)).toEqual([
      { file: 'version.json', items: 1 },
    ]);
  });

  it('requires a sign-in', async () => {
    const { statusCode, headers } = await request(`${environment.origin}/diagnostics/archive`);
    expect([statusCode, headers.location]).toEqual([303, '/sign-in?to=%2Fdiagnostics%2Farchive']);
  });

  it('is described on its page, list by list', async () => {
    const { text } = await (await environment.signedIn('viewer')).get('/diagnostics');
    expect(text).toContain('assistants home included');
    expect(text).toContain('nodes the cluster left out you may not list these');
  });
});

describe('archives at the same time', () => {
  const visitOf = (user: string) =>
    ({ session: { user }, names: environmentNames, may: async () => true }) as unknown as Visit;
  const environmentNames = {
    space: 'home',
    namespace: 'home',
    systemNamespace: 's',
    servicesNamespace: 't',
  };

  it('are at most one for a person and four in all, however fast they are requested', async () => {
    const route = diagnosticsRoutes(() => new Date(0)).find(({ path }) => path.endsWith('/archive'));
    const ask = (user: string) => route!.run(visitOf(user)) as Promise<Download>;
    const [first, second] = await Promise.allSettled([ask('eve'), ask('eve')]);
    expect([first.status, second.status]).toEqual(['fulfilled', 'rejected']);
    const others = await Promise.allSettled(['mia', 'sam', 'kim', 'ada'].map(ask));
    expect(others.map(({ status }) => status)).toEqual([
      ...['fulfilled', 'fulfilled', 'fulfilled', 'rejected'],
    ]);
    if (first.status === 'fulfilled') first.value.ended();
    expect(await ask('ada')).toBeInstanceOf(Download);
  });
});

describe('the archive of an endless Space', () => {
  const { session, names } = {
    session: { user: 'sam' },
    names: { namespace: 'home', systemNamespace: 's', servicesNamespace: 't' },
  };
  const endless = (asked: () => void) =>
    ({
      session,
      names,
      may: async () => true,
      ask: async () => {
        asked();
        const items = Array.from({ length: 250 }, (_, index) => ({ metadata: { name: `one-${index}` } }));
        return { metadata: { continue: 'more' }, items };
      },
    }) as unknown as Visit;
  const filesOf = async (visit: Visit, now: () => Date, bounds = BOUNDS) => {
    const entries = await Array.fromAsync(archive(visit, now, bounds));
    return JSON.parse(entries.at(-1)?.content ?? '').files as { missing?: string }[];
  };

  it('has a limited number of objects and bytes', async () => {
    const [items, bytes] = [500, 100_000];
    const visit = endless(() => {});
    const entries = await Array.fromAsync(archive(visit, () => new Date(0), { ...BOUNDS, items, bytes }));
    // README.txt and version.json are first, contents.json is last.
    const lists = entries.slice(2, -1);
    const { files } = JSON.parse(entries.at(-1)?.content ?? '') as { files: { missing?: string }[] };
    const lengths = lists.map(({ content }) => JSON.parse(content).length);
    expect(lengths).toEqual(Array(lengths.length).fill(items));
    expect(lengths.length).toBeGreaterThan(0);
    // Further lists are read, and left out.
    expect(files.length).toBeGreaterThan(lengths.length + 1);
    const sizes = lists.map(({ content }) => Buffer.byteLength(content));
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(bytes);
    expect(files.slice(1).every(({ missing }) => missing === 'too much')).toBe(true);
  });

  it('reads so few objects at a time that four archives of the largest manifests fit into memory', async () => {
    const limits: number[] = [];
    const visit = endless(() => {});
    const asking = {
      ...visit,
      ask: (ask: Ask) => {
        limits.push(Number(ask.query?.['limit'] ?? 1));
        return visit.ask(ask);
      },
    } as Visit;
    await filesOf(asking, () => new Date(0), { ...BOUNDS, items: 250 });
    // A genesis has 65,536 characters of up to four bytes; what is parsed takes three times as much.
    expect(4 * Math.max(...limits) * 65_536 * 4).toBeLessThan(64 * 1024 * 1024);
  });

  it('is limited in time', async () => {
    let minutes = 0;
    const files = await filesOf(
      endless(() => {
        minutes += 1;
      }),
      () => new Date(minutes * 20_000),
      { ...BOUNDS, items: 250 },
    );
    expect(files.at(-1)).toMatchObject({ missing: 'out of time' });
    expect(minutes).toBeLessThan(8);
  });

  it('is limited in time within a list, too, and contains what was read of it', async () => {
    let asked = 0;
    const visit = endless(() => {
      asked += 1;
    });
    const files = await filesOf(visit, () => new Date(asked * 20_000));
    expect(files).toContainEqual({ file: 'capsules/home.json', items: 750, missing: 'out of time' });
    expect(asked).toBe(4);
  });
});

describe('the archive while the API server fails now and then', () => {
  it('says so of a list whose right was not checked, and contains the others', async () => {
    const visit = {
      session: { user: 'sam' },
      names: { namespace: 'home', systemNamespace: 's', servicesNamespace: 't' },
      may: async ({ resource }: { resource: string }) => {
        if (resource === 'nodes') throw new KubernetesError(0, 'Unreachable', 'it did not answer');
        return true;
      },
      ask: async () => ({ items: [] }),
    } as unknown as Visit;
    const entries = await Array.fromAsync(archive(visit, () => new Date(0)));
    const { files } = JSON.parse(entries.at(-1)?.content ?? '');
    expect(files).toContainEqual({ file: 'nodes.json', missing: 'no answer' });
    expect(files).toContainEqual({ file: 'runtimeclasses.json', items: 0 });
  });
});
