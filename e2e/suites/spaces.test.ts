import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject } from '../space/kube-object.ts';
import type { Engines } from './engines.ts';
import {
  answered,
  credentialsOf,
  filesWith,
  granted,
  type Provider,
  startProvider,
} from './support/own-bucket.ts';
import { CHART, helm, installLikeOurs, uninstall } from './support/releases.ts';
import {
  assistant,
  capsule,
  databaseUrl,
  gone,
  installed,
  kube,
  openDatabase,
  ready,
  runningPod,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

const CLUSTER_WIDE =
  'clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings';
/**
 * What an operator creates for an Assistant, and what protects it. Pods are compared by their identity, not by their
 * state.
 */
const MADE =
  'deployments,services,configmaps,secrets,networkpolicies,resourcequotas,limitranges,rolebindings';

/** A Space, and in it a Capsule and an Assistant whose names are the same in every Space. */
interface Home {
  readonly space: string;
  /** The namespace of its Capsules and Assistants. */
  readonly namespace: string;
  readonly system: string;
  readonly services: string;
  /** The namespace of its Capsule. */
  inside: string;
  engines: Engines;
}

const home: Home = {
  space: installed.space,
  namespace: installed.namespace,
  system: `${installed.space}-system`,
  services: `${installed.space}-services`,
  inside: '',
  engines: installed.engines,
};
const cabinName = unique('cabin');
const cabin: Home = {
  space: cabinName,
  namespace: cabinName,
  system: `${cabinName}-system`,
  services: `${cabinName}-services`,
  inside: '',
  engines: installed.engines, // until it has its own
};
const both = [home, cabin];
const pairs = [
  { one: home, other: cabin },
  { one: cabin, other: home },
] as const;

const same = unique('same');
const placed = (object: { metadata: object }, { namespace }: Home) => ({
  ...object,
  metadata: { ...object.metadata, namespace },
});

/**
 * The version of an object that changes with any write to it. The cluster's own controllers may write a status late,
 * so a status does not count, except that of Capsules and Assistants, which an operator writes; of these neither how much
 * they hold counts, since it is looked up every ten minutes, nor when a condition changed, since it may have changed back.
 */
function version({ kind, metadata, status = {} }: KubeObject): unknown {
  const { uid, generation, managedFields = [] } = metadata as Written;
  if (kind === 'Pod') return uid;
  const written = [uid, generation, managedFields.filter(({ subresource }) => subresource !== 'status')];
  if (kind !== 'Capsule' && kind !== 'Assistant') return written;
  const { usage: _, conditions = [], ...told } = status;
  return [...written, told, (conditions as readonly Told[]).map(({ lastTransitionTime: _, ...one }) => one)];
}

interface Told {
  readonly lastTransitionTime?: string;
}

interface Written {
  readonly uid?: string;
  readonly generation?: number;
  readonly managedFields?: readonly { readonly subresource?: string }[];
}

/** Every object of a Space that a mistake of an operator could change. */
async function everything({ space, namespace, system, inside }: Home): Promise<Record<string, unknown>> {
  const ofSpace = ['-l', `platform.space/space=${space}`];
  const asked = await Promise.all(
    [
      ['capsules', same, '-n', namespace],
      ['assistants', same, '-n', namespace],
      ['namespaces', ...ofSpace],
      [CLUSTER_WIDE, ...ofSpace],
      [`${MADE},pods`, '-n', inside],
      ['secrets,configmaps', '-n', system, ...ofSpace],
    ].map(async (args) => {
      const { code, stdout, stderr } = await kube.run([
        'get',
        ...args,
        '-o',
        'json',
        '--show-managed-fields',
      ]);
      if (code !== 0) throw new Error(stderr);
      const found = JSON.parse(stdout) as KubeObject & { readonly items?: readonly KubeObject[] };
      return found.items ?? [found];
    }),
  );
  const objects = asked
    .flat()
    // Namespaces and Secrets of other suites' Capsules are created and deleted meanwhile.
    .filter(({ metadata }) => [undefined, same].includes(metadata.labels?.['platform.space/capsule']));
  const entries = objects.map((object) => {
    const { namespace: place = '', name } = object.metadata;
    return [`${object.kind} ${place}/${name}`, version(object)];
  });
  return Object.fromEntries(entries);
}

/** The same, once its Capsule has counted its one Assistant, and its status has not changed for a while. */
async function atRest(of: Home): Promise<Record<string, unknown>> {
  await until(`${of.space} to have one Assistant`, async () => {
    const { assistants } = (await kube.get('capsule', same, of.namespace))?.['status'] ?? {};
    return assistants?.total === 1 && assistants.ready === 1;
  });
  let last = '';
  return until(`${of.space} to be at rest`, async () => {
    const now = await everything(of);
    const before = last;
    last = JSON.stringify(now);
    if (last === before) return now;
    await pause(1_000); // two looks at one moment would prove nothing
    return false;
  });
}

/**
 * Its conditions may change for a moment for reasons of its own, as when a pod answers late on a busy node, and change
 * back; whatever is created, written or deleted does not.
 */
const isStill = (of: Home, before: Record<string, unknown>) =>
  until(`${of.space} to be as it was`, async () => {
    expect(await everything(of)).toEqual(before);
    return true;
  });

describe('two Spaces in one cluster', () => {
  let provider: Provider;

  beforeAll(async () => {
    provider = await startProvider(unique('provider'));
    // One of the two replicas: the other continues without it.
    const bringing = { dataPlane: { byok: true }, byok: provider.byok };
    cabin.engines = await installLikeOurs(cabin, (values) => ({
      ...values,
      objectStore: { ...values['objectStore'], ...bringing },
    }));
    for (const of of both) {
      await kube.apply(placed(capsule(same), of), placed(assistant(same, 'inside', {}, same), of));
    }
    await Promise.all(
      both.map(async (of) => {
        of.inside = (await ready('capsule', same, of.namespace)).status.namespace;
        await ready('assistant', same, of.namespace);
      }),
    );
  });

  afterAll(async () => {
    for (const of of both) await kube.remove('capsule', same, of.namespace);
    await gone('capsule', same, cabin.namespace);
    await uninstall(cabin, provider.namespace);
  });

  it('have databases of their own for Capsules and Assistants of the same names', async () => {
    expect(home.inside).not.toBe(cabin.inside);
    const [mine, theirs] = await Promise.all(both.map(({ inside }) => databaseUrl(inside, 'inside')));
    if (mine === undefined || theirs === undefined) throw new Error('no URL');
    expect(mine.username).not.toBe(theirs.username);
    expect(mine.pathname).not.toBe(theirs.pathname);
    for (const [url, own, other] of [
      [mine, home, cabin],
      [theirs, cabin, home],
    ] as const) {
      const database = url.pathname.slice(1);
      expect((await openDatabase(url, database, own.engines.postgres)).stdout.trim()).toBe(database);
      // Its own name, since a role may ask for no other.
      const refused = await openDatabase(url, database, other.engines.postgres);
      expect(refused.stderr).toContain(`password authentication failed for user "${url.username}"`);
    }
  });

  it('have files of their own, under keys that differ, and refuse tokens of the other', async () => {
    const path = `/v1/objects/data/${same}`;
    const put = await Promise.all(both.map((of) => object(of, 'PUT', path, `of ${of.space}`)));
    expect(put.map(([status]) => status)).toEqual([200, 200]);
    const keys = await Promise.all(
      pairs.map(async ({ one, other }) => {
        expect(await object(one, 'GET', path)).toEqual([200, `of ${one.space}`]);
        const secret = await kube.get('secret', 'inside-objectstore', other.inside);
        const foreign = Buffer.from(secret?.['data'].token, 'base64').toString();
        expect((await object(one, 'GET', path, '', foreign))[0]).toBe(403);
        const find = ['grep', '-rlF', `of ${one.space}`, '/data'];
        const { namespace, pod } = one.engines.s3;
        const { stdout } = await kube.exec(namespace, pod, find);
        expect(stdout.trim().split('\n')).toHaveLength(1);
        return stdout.trim();
      }),
    );
    expect(keys[0]).not.toBe(keys[1]);
  });

  it('one lets its Capsules use a bucket of their own, by grants that follow the selection; no Assistant sees a key', async () => {
    const credentials = credentialsOf(cabin.space, same);
    const done = async (operation: string, body: object) => {
      const [status, answer] = await credentials(operation, body);
      expect([operation, status, answer]).toEqual([operation, 200, answer]);
      return answer;
    };
    // The broker tests what is submitted within a deadline, which a busy node may miss. As a person would, the test
    // then tries again.
    const accepted = (operation: string, body: object) =>
      until(`${operation} to be accepted`, async () => {
        const [status, answer] = await credentials(operation, body);
        if (status !== 200) throw new Error(JSON.stringify(answer));
        return answer;
      });
    const ask = (...request: readonly string[]) => granted(cabin.inside, 'inside', ...request);
    let looks = 0;
    const look = async () => {
      looks += 1;
      const mark = `example.org/look=${looks}`;
      const { code } = await kube.run([
        ...['annotate', 'assistant', same, '-n', cabin.namespace, '--overwrite'],
        mark,
      ]);
      expect(code).toBe(0);
    };
    const path = `/v1/objects/data/${same}-own`;
    const [managed, own] = [unique('kept-by-the-space'), unique('kept-by-the-capsule')];
    expect(await ask('PUT', path, managed)).toMatchObject({ status: 200, grant: '' });

    const form = { form_version: 1, fields: provider.fields };
    const { set_id } = await accepted('create', {
      ...form,
      name: 'mine',
      expected_inventory_generation: 0,
      idempotency_key: 'create-0000000000',
    });
    await done('select', { set_id, expected_inventory_generation: 1 });
    expect((await object(cabin, 'PUT', path, own))[0]).toBe(409);
    await look();
    const first = await until('the first grant', async () => {
      const put = await ask('PUT', path, own);
      return put.status === 200 && put;
    });
    expect(await ask('GET', path)).toMatchObject({ status: 200, text: own });
    expect(await Promise.all([provider.holds(own), filesWith(cabin.engines.s3, own)])).toEqual([1, 0]);

    await accepted('rotate', {
      ...form,
      set_id,
      expected_generation: 1,
      idempotency_key: 'rotate-0000000000',
    });
    expect((await ask('GET', path, '', first.grant)).status).toBe(409);
    await look();
    const second = await until('a grant of the new generation', async () => {
      const got = await ask('GET', path);
      return got.status === 200 && got;
    });
    expect(second).toMatchObject({ text: own });
    expect(second.grant).not.toBe(first.grant);

    // Everywhere that somebody of this Capsule, or the person who operates it, could look.
    const pod = (await runningPod(cabin.inside, 'inside')).metadata.name;
    const places = await Promise.all([
      kube.exec(cabin.inside, pod, [
        'sh',
        '-c',
        'env; cat /proc/*/environ; find -L /etc/space /tmp -type f -exec cat {} +; true',
      ]),
      kube.run(['get', 'all,secrets,configmaps', '-n', cabin.inside, '-o', 'json']),
      kube.run(['get', 'capsules,assistants,events,secrets', '-n', cabin.namespace, '-o', 'json']),
      kube.run(['get', 'secrets,configmaps', '-n', cabin.system, '-o', 'json']),
      kube.run(['logs', '-n', cabin.services, 'deploy/objectstore-broker']),
      kube.run(['logs', '-n', cabin.system, `deploy/${cabin.space}-operator`]),
    ]);
    expect(places.map(({ stdout }) => stdout.length > 500)).toEqual(places.map(() => true));
    expect(places[0].stdout).toContain(second.grant);
    const seen = places.map(({ stdout }) => stdout).join('\n');
    const secrets = [provider.fields['access-key-id'], provider.fields['secret-access-key']] as string[];
    for (const value of secrets) {
      expect(seen).not.toContain(value);
      expect(seen).not.toContain(Buffer.from(value).toString('base64').replace(/=+$/, ''));
    }

    await done('select', { set_id: null, expected_inventory_generation: 3 });
    expect((await ask('GET', path, '', second.grant)).status).toBe(409);
    await done('delete', { set_id, expected_generation: 2 });
    await look();
    const last = await until('the grant to be gone', async () => {
      const got = await ask('GET', path);
      return got.status === 200 && got;
    });
    expect(last).toMatchObject({ text: managed, grant: '' });
    expect(await provider.holds(own)).toBe(1);
  });

  it.each(pairs)(
    '$one.space changes nothing of $other.space while it works',
    async ({ one: working, other: resting }) => {
      const before = await atRest(resting);
      expect(Object.keys(before).length).toBeGreaterThan(40);
      const more = `${same}-more`;
      await kube.apply(placed(assistant(same, 'more', {}, more), working));
      await ready('assistant', more, working.namespace);
      await kube.remove('assistant', more, working.namespace);
      await gone('assistant', more, working.namespace);
      await isStill(resting, before);
    },
  );

  it.each(pairs)(
    'the operator of $one.space may neither read nor write what is $other.space’s',
    async ({ one, other }) => {
      const everywhere = (verbs: string, resource: string, places: readonly string[]) =>
        places.flatMap((place) => verbs.split(' ').map((verb) => ({ verb, resource, place })));
      const theirs = [other.namespace, other.system, other.services, other.inside];
      const asks = [
        ...everywhere('get list watch patch delete', 'capsules.platform.space', [other.namespace]),
        ...everywhere('get list watch patch delete', 'assistants.platform.space', [other.namespace]),
        ...everywhere('patch', 'capsules.platform.space/status', [other.namespace]),
        ...everywhere('get update', 'leases.coordination.k8s.io', [other.namespace, other.system]),
        ...everywhere('get list create patch delete', 'secrets', theirs),
        ...everywhere('create delete', 'pods', theirs),
        ...everywhere('create', 'pods/exec', theirs),
        ...everywhere('bind escalate', 'clusterroles.rbac.authorization.k8s.io', [other.inside]),
        // The last question shows that it is this account that is asked about: in its own Space it may.
        ...everywhere('list', 'capsules.platform.space', [one.namespace]),
      ];
      const allowed = await mayOperator(one, asks);
      expect(asks.filter((_, i) => allowed[i])).toEqual(asks.slice(-1));

      // Admission restricts what its roles allow everywhere.
      const as = `--as=system:serviceaccount:${one.system}:${one.space}-operator`;
      const make = ['create', 'configmap', 'planted', '--dry-run=server', as, '-n'];
      const refused = await Promise.all(theirs.map((place) => kube.run([...make, place])));
      // In the other operator's own namespace that Space's policies refuse it, too, and any of them may be the first.
      for (const { code, stderr } of refused) {
        expect(code).not.toBe(0);
        expect(stderr).toMatch(
          new RegExp(
            `ValidatingAdmissionPolicy '(${one.space}-operator-fence|${other.space}-reserved-secrets)'`,
          ),
        );
      }
      // Two policies protect a NetworkPolicy, and either may refuse first.
      const change = ['annotate', 'networkpolicy', '--all', 'planted=x', '--dry-run=server', as];
      const wall = await kube.run([...change, '-n', other.inside]);
      expect(wall.code).not.toBe(0);
      expect(wall.stderr).toMatch(
        new RegExp(
          `ValidatingAdmissionPolicy '(${one.space}-operator-fence|${other.space}-protected-walls)'`,
        ),
      );
    },
  );

  it('one is not uninstalled while it has a Capsule, and then leaves no trace in the other', async () => {
    const refusal = await helm(cabin, ['uninstall', cabin.space]).catch(({ message }: Error) => message);
    expect(refusal).toMatch(/uninstall-guard|pre-delete/);
    expect(refusal).toContain(`This Space still has 1 Capsules: ${same}.`);
    await ready('assistant', same, cabin.namespace);
    // Helm upgrades no release whose uninstallation it has begun; the guard's message says how to continue.
    const [, ...mend] = /helm (-n \S+ )(rollback \S+ \d+)/.exec(refusal) ?? [];
    expect(mend).toEqual([`-n ${cabin.namespace} `, expect.stringContaining(`rollback ${cabin.space} `)]);
    const upgrade = ['upgrade', cabin.space, CHART, '--reset-then-reuse-values', '--skip-crds'];
    await expect(helm(cabin, upgrade)).rejects.toThrow(/no deployed releases/);
    await helm(cabin, (mend[1] ?? '').split(' '));
    await helm(cabin, upgrade);
    await kube.remove('capsule', same, cabin.namespace);
    await gone('capsule', same, cabin.namespace);
    const before = await atRest(home);
    const definitions = await shared();

    await helm(cabin, ['uninstall', cabin.space]);
    const left = await kube.run([
      'get',
      CLUSTER_WIDE,
      '-l',
      `platform.space/space=${cabin.space}`,
      '-o',
      'name',
    ]);
    expect(left.stdout).toBe('');
    await isStill(home, before);
    expect(await shared()).toEqual(definitions);
    // The remaining Space works: what it creates passes the remaining policies, definitions and gate.
    await kube.apply(assistant(same, 'after', {}, `${same}-after`));
    await ready('assistant', `${same}-after`);
  });
});

interface Ask {
  readonly verb: string;
  /** `resource.group/subresource` */
  readonly resource: string;
  readonly place: string;
}

/** Answers what `kubectl auth can-i --as` does, in one command for all questions. */
async function mayOperator({ space, system }: Home, asks: readonly Ask[]): Promise<boolean[]> {
  const reviews = asks.map(({ verb, resource: all, place }) => {
    const [name = '', subresource = ''] = all.split('/');
    const [resource = '', ...group] = name.split('.');
    return JSON.stringify({
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        user: `system:serviceaccount:${system}:${space}-operator`,
        groups: ['system:serviceaccounts', `system:serviceaccounts:${system}`, 'system:authenticated'],
        resourceAttributes: { namespace: place, verb, group: group.join('.'), resource, subresource },
      },
    });
  });
  const args = ['create', '-f', '-', '-o', 'jsonpath={.status.allowed}{"\\n"}'];
  const { code, stdout, stderr } = await kube.run(args, reviews.join('\n---\n'));
  if (code !== 0) throw new Error(stderr);
  const answers = stdout.trim().split('\n');
  expect(answers).toHaveLength(asks.length);
  return answers.map((answer) => answer === 'true');
}

/** The objects that all Spaces share. */
async function shared() {
  const names = ['capsules', 'assistants'].map((kind) => `customresourcedefinition/${kind}.platform.space`);
  const { stdout } = await kube.run([
    'get',
    ...names,
    'runtimeclass/gvisor',
    '-o',
    'json',
    '--show-managed-fields',
  ]);
  return (JSON.parse(stdout) as { items: KubeObject[] }).items.map(version);
}

/** Sends one request for an object from inside an Assistant; returns status and body. */
async function object({ inside }: Home, method: string, path: string, ...more: readonly string[]) {
  const script = `
    const { readFileSync } = require('node:fs');
    const [method, path, body, token = readFileSync(process.env.OBJECT_STORE_TOKEN_FILE, 'utf8').trim()] = process.argv.slice(1);
    fetch(process.env.OBJECT_STORE_URL + path, { method, headers: { authorization: 'Bearer ' + token }, ...(body ? { body } : {}) })
      .then(async (answer) => console.log(JSON.stringify([answer.status, await answer.text()])));
  `;
  const pod = (await runningPod(inside, 'inside')).metadata.name;
  return answered<[number, string]>(inside, pod, ['node', '-e', script, method, path, ...more]);
}
