/** Waits for what the operator creates for a restored Capsule, and for its Assistants to start. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Step } from '../../progress/index.ts';
import type { Kube } from '../../space/kube.ts';
import type { KubeObject } from '../../space/kube-object.ts';
import type { Place } from '../place.ts';
import { RestoreProblem } from '../problem.ts';
import type { Access } from './load.ts';
import type { Namespaces } from './objects.ts';
import { type Files, filesOf } from './queries.ts';
import { idOf, isSuspended, type Tenant } from './tenant.ts';

/** New databases and files, by the ids of Assistants. */
export interface NewResources {
  readonly databases: ReadonlyMap<string, Access>;
  readonly files: Files;
}

export interface WaitContext {
  readonly kube: Kube;
  readonly namespaces: Namespaces;
  readonly signal: AbortSignal;
}

export interface ResourceContext extends WaitContext {
  /** The address of each server for pods, by the host in URLs: a new Capsule may be placed on any server. */
  readonly addresses: ReadonlyMap<string, string>;
}

const POLL_MS = 500;
const FURNISHED_WITHIN_MS = 300_000;
const READY_WITHIN_MS = 300_000;
/** Reasons that end without help. */
const PASSING = new Set([
  '',
  'Waiting',
  'Starting',
  'Restoring',
  'CapsuleNotReady',
  'GatewayNotAcknowledged',
]);
/** How long another reason may last before a person has to look. */
const STUCK_MS = 15_000;

const decoded = (secret: KubeObject | undefined, key: string): string | undefined => {
  const value: string | undefined = secret?.['data']?.[key];
  return value === undefined ? undefined : Buffer.from(value, 'base64').toString();
};

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

const conditionOf = (object: KubeObject | undefined, type: string): Condition | undefined =>
  object?.['status']?.conditions?.find((one: Condition) => one.type === type);

/** @throws RestoreProblem if an Assistant, or the Capsule, gets no database or files */
export async function awaitResources(
  about: ResourceContext,
  server: Place,
  tenant: Tenant,
  step: Step,
): Promise<NewResources> {
  const { kube, namespaces, signal } = about;
  const { name } = tenant.capsule.metadata;
  const deadline = performance.now() + FURNISHED_WITHIN_MS;
  for (;;) {
    const capsule = await kube.get('capsule', name, namespaces.release);
    const inside: string | undefined = capsule?.['status']?.namespace;
    const databases = inside === undefined ? undefined : await accesses(about, tenant, inside);
    const files = databases && (await filesOf(server, name));
    if (databases && files && tenant.assistants.every((one) => files.apps[idOf(one)] !== undefined))
      return { databases, files };
    const ready = conditionOf(capsule, 'Ready');
    step.note(
      ready?.status === 'True'
        ? 'waiting for the databases and files of its Assistants'
        : (ready?.message ?? ''),
    );
    if (performance.now() > deadline)
      throw new RestoreProblem(
        `Capsule ${name} has no databases and files after ${FURNISHED_WITHIN_MS / 1_000} s: ${ready?.message ?? 'the operator has reported no condition'}. Repair the cause, then run the command again`,
      );
    await wait(POLL_MS, undefined, { signal });
  }
}

/** Undefined while one is missing. */
async function accesses(
  { kube, namespaces, addresses }: ResourceContext,
  { capsule, assistants }: Tenant,
  inside: string,
): Promise<ReadonlyMap<string, Access> | undefined> {
  const found = new Map<string, Access>();
  for (const { metadata, ...one } of assistants) {
    const id = idOf({ metadata, ...one });
    const [assistant, secret] = await Promise.all([
      kube.get('assistant', metadata.name, namespaces.release),
      kube.get('secret', `${id}-database`, inside),
    ]);
    const accepted = conditionOf(assistant, 'Accepted');
    if (accepted?.status === 'False')
      throw new RestoreProblem(
        `Assistant ${metadata.name} gets no database: ${accepted.message} Repair the cause, then run the command again`,
      );
    const url = decoded(secret, 'DATABASE_URL');
    const owner = secret?.metadata.annotations?.['platform.space/owner-uid'];
    if (url === undefined || owner !== assistant?.metadata.uid) return undefined;
    found.set(id, accessOf(url, secret, addresses));
  }
  const own = await kube.get('secret', `capsule-${capsule.metadata.name}-database`, namespaces.system);
  const url = decoded(own, 'database-url');
  const [first] = found.values();
  if (url !== undefined && first !== undefined) found.set('', { ...first, url });
  return found;
}

/** @throws RestoreProblem for a server that the operator does not know */
function accessOf(
  url: string,
  secret: KubeObject | undefined,
  addresses: ReadonlyMap<string, string>,
): Access {
  const { hostname: host, searchParams } = new URL(url);
  const address = addresses.get(host);
  if (address === undefined)
    throw new RestoreProblem(
      `a database is on ${host}, and the operator of this Space knows no PostgreSQL server with that name. Run the command again once it does`,
    );
  // The file has the name of the CA's key in the Secret; without that key nothing is verified.
  const [, authority] = /([^/]+)$/.exec(searchParams.get('sslrootcert') ?? '') ?? [];
  return { url, host, address, ca: authority === undefined ? undefined : secret?.['data'][authority] };
}

/** Waits until everything that is not suspended is Ready; returns what a person has to look at first. */
export async function awaitReady(
  { kube, namespaces, signal }: WaitContext,
  { capsule, assistants }: Tenant,
  step: Step,
): Promise<readonly string[]> {
  const wanted = isSuspended(capsule) ? [] : assistants.filter((one) => !isSuspended(one));
  const begun = performance.now();
  for (;;) {
    const found = await Promise.all(
      wanted.map(({ metadata }) => kube.get('assistant', metadata.name, namespaces.release)),
    );
    const late = found.flatMap((one) => {
      const ready = conditionOf(one, 'Ready');
      const { name = '' } = one?.metadata ?? {};
      return ready?.status === 'True'
        ? []
        : [{ name, reason: ready?.reason ?? '', message: ready?.message ?? '' }];
    });
    const waited = performance.now() - begun;
    const stuck = waited > STUCK_MS && late.every(({ reason }) => !PASSING.has(reason));
    if (late.length === 0 || stuck || waited > READY_WITHIN_MS)
      return late.map(({ name, message }) => `Assistant ${name}: ${message}`);
    step.note(late.map(({ name, reason }) => `${name}: ${reason}`).join(', '));
    await wait(POLL_MS, undefined, { signal });
  }
}
