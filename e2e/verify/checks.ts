/**
 * Checks of everything but the network: the sandbox, admission, and what credentials give access to. Each includes a
 * request that must succeed.
 */
import type { Kube } from '../space/kube.ts';
import type { Place } from './bystanders.ts';
import { custodyCheck } from './custody.ts';
import { PROBER } from './prober.ts';
import type { Probers } from './probers.ts';
import type { Check } from './report.ts';

import { CONNECT, DATABASE, OBJECT } from './within.ts';

const check = (name: string, holds: boolean, found: string): Check => ({ name, holds, found });

type Capsule = Probers['capsules'][number];

/**
 * The kubelet reports this about a program that it could not start in time, as on a machine under load; the check was
 * not made yet.
 */
const NOT_BEGUN = /failed to exec in container/;
const TRIES = 3;

/** Two Capsules, each of which must have no access to the other's data, and how programs are run in them. */
interface Sides {
  readonly kube: Kube;
  readonly place: Place;
  readonly capsules: readonly Capsule[];
  readonly a: Capsule;
  readonly b: Capsule;
  readonly within: (of: Capsule, argv: readonly string[]) => Promise<string>;
  readonly node: (of: Capsule, program: string, ...args: readonly string[]) => Promise<string>;
}

/** Runs a program in the Assistant of a Capsule, and returns its output. */
export function programsIn(kube: Pick<Kube, 'run'>): Sides['within'] {
  return async ({ namespace, pod }, argv) => {
    const into = ['exec', '-n', namespace, pod.metadata.name, '-c', 'assistant', '--'];
    for (let left = TRIES; ; left -= 1) {
      const { stdout, stderr } = await kube.run([...into, ...argv]);
      if (stdout.trim() !== '') return stdout.trim();
      if (left === 1 || !NOT_BEGUN.test(stderr)) return `no answer: ${stderr.trim().split('\n')[0]}`;
    }
  };
}

export async function checksOf(kube: Kube, place: Place, { capsules }: Probers): Promise<Check[]> {
  const [a, b] = capsules;
  if (a === undefined || b === undefined) throw new Error('two Capsules are needed');
  const within = programsIn(kube);
  const node: Sides['node'] = (of, program, ...args) => within(of, ['node', '-e', program, ...args]);
  const sides: Sides = { kube, place, capsules, a, b, within, node };
  const hasFiles = a.pod['spec'].containers.some(({ env = [] }) =>
    env.some(({ name }: { name: string }) => name === 'OBJECT_STORE_URL'),
  );
  return Promise.all([
    sandbox(sides),
    attestation(sides),
    admission(sides),
    database(sides),
    ...(hasFiles ? [files(sides)] : []),
    egress(sides),
    custodyCheck(sides),
  ]);
}

async function sandbox({ capsules, within }: Sides): Promise<Check> {
  const kernels = await Promise.all(capsules.map((of) => within(of, ['cat', '/proc/version'])));
  return check(
    'sandbox',
    kernels.every((kernel) => /gvisor/i.test(kernel)),
    kernels[0] ?? '',
  );
}

async function attestation({ kube, place, capsules, a }: Sides): Promise<Check> {
  const attester = (pod: typeof a.pod) =>
    pod['status'].initContainerStatuses?.find(({ name }: { name: string }) => name === 'attest');
  const attested = capsules.every(({ pod }) => attester(pod)?.state.terminated?.exitCode === 0);
  const conditions = (await kube.get('capsule', a.name, place.namespace))?.['status'].conditions ?? [];
  const proved = ['SandboxReady', 'NetworkReady'].map((type) =>
    conditions.find((condition: { type: string }) => condition.type === type),
  );
  return check(
    'attestation',
    attested && proved.every((condition) => condition?.status === 'True'),
    attested
      ? proved.map((condition) => `${condition?.type}: ${condition?.message}`).join(' ')
      : 'a prober runs although its attester did not succeed',
  );
}

async function admission({ kube, place, a }: Sides): Promise<Check> {
  const { runtimeClassName } = a.pod['spec'];
  const pod = (name: string, spec: object) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: a.namespace },
    spec: {
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'x',
          image: a.pod['spec'].containers[0].image,
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
      ...spec,
    },
  });
  const tried = [pod('outside', {}), pod('unattested', { runtimeClassName })].map(async (object) => {
    const { code, stderr } = await kube.run(
      ['create', '--dry-run=server', '-f', '-'],
      JSON.stringify(object),
    );
    return { name: object.metadata.name, refused: code !== 0 && stderr.includes(`${place.space}-sandbox`) };
  });
  const admitted = (await Promise.all(tried)).filter(({ refused }) => !refused).map(({ name }) => name);
  return check(
    'admission',
    admitted.length === 0,
    admitted.length === 0
      ? `pods outside the sandbox and without its attester are refused by ${place.space}-sandbox`
      : `not refused by ${place.space}-sandbox: ${admitted}`,
  );
}

async function database({ kube, a, b, node }: Sides): Promise<Check> {
  const secret = await kube.get('secret', `${PROBER}-database`, b.namespace);
  const theirs = new URL(
    Buffer.from(secret?.['data'].DATABASE_URL ?? '', 'base64').toString(),
  ).pathname.slice(1);
  const [own, other] = await Promise.all([node(a, DATABASE, ''), node(a, DATABASE, theirs)]);
  return check(
    'cross-database',
    own === 'ready' && ['42501', '28000'].includes(other),
    `login to its own database: ${own}; to another Capsule's: ${other}`,
  );
}

async function files({ place, a, b, node }: Sides): Promise<Check> {
  const key = `/v1/objects/shared/verify-${place.run}`;
  const stored = await node(a, OBJECT, 'PUT', key, 'mine');
  const [own, other, nobody] = await Promise.all([
    node(a, OBJECT, 'GET', key),
    node(b, OBJECT, 'GET', key),
    node(a, OBJECT, 'GET', key, '', 'spc_osw_nobody'),
  ]);
  await node(a, OBJECT, 'DELETE', key);
  const holds = stored === '200' && own === '200' && other === '404' && nobody === '403';
  return check(
    'cross-prefix',
    holds,
    `PUT of an object: ${stored}; GET by its own Assistant: ${own}, by another Capsule's: ${other}, with an unknown token: ${nobody}`,
  );
}

async function egress({ a, node }: Sides): Promise<Check> {
  const [denied, metadata, bare] = await Promise.all([
    node(a, CONNECT, 'example.com', 'own'),
    node(a, CONNECT, '169.254.169.254', 'own'),
    node(a, CONNECT, 'example.com', 'none'),
  ]);
  const holds = denied === '403' && ['400', '403'].includes(metadata) && bare === '407';
  return check(
    'egress',
    holds,
    `CONNECT to a host that is not allowed: ${denied}; to the metadata address: ${metadata}; without a credential: ${bare}`,
  );
}
