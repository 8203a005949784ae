import { isDeepStrictEqual } from 'node:util';
import { gunzipSync } from 'node:zlib';
import type { ApiClient } from '../runtime/client.ts';
import { isAlreadyExists, isNotFound } from '../runtime/errors.ts';
import { type KubeObject, pathOf, type Resource } from '../runtime/kube-object.ts';
import { AUTHORITY } from './authority.ts';
import { materialsOf } from './materials.ts';
import type { Run } from './options.ts';

const resource = (plural: string, kind: string, group = ''): Resource => ({
  group,
  version: 'v1',
  plural,
  kind,
  namespaced: true,
});
const SECRET = resource('secrets', 'Secret');
const CONFIG_MAP = resource('configmaps', 'ConfigMap');
const POD = resource('pods', 'Pod');
const DEPLOYMENT = resource('deployments', 'Deployment', 'apps');
const LEASE = resource('leases', 'Lease', 'coordination.k8s.io');

const SPACE = 'platform.space/space';
const OWNER = 'platform.space/owner-uid';

interface Document extends KubeObject {
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

export interface Move {
  readonly run: Run;
  readonly client: ApiClient;
  /** Waits between two checks of unfinished work. */
  readonly wait: () => Promise<void>;
}

/**
 * Runs before an upgrade from a chart that had the operator in the release's namespace: stops that operator, then
 * copies its Secrets and ConfigMaps into the operator's own namespace. It deletes none of them, so that a failed upgrade
 * can go back. It can be repeated, and does not overwrite what a new operator has written since.
 */
export async function copyOut({ run, client, wait }: Move): Promise<void> {
  const { releaseNamespace: from, systemNamespace: to, space, given, tell } = run;
  await endOperator(client, from, `${space}-operator`, { space, wait });
  const led = (await get(client, LEASE, to, `${space}-operator`)) !== undefined;
  const mine = materialsOf(run).filter(
    ({ value, places }) => places.includes('system') && !given.includes(value),
  );
  const named = [...mine.map(({ name }) => name), ...run.mounted.secrets];
  const kept = (await list(client, SECRET, from)).filter((secret) => isKept(secret, space));
  const secrets = new Set([...named, ...kept.map(({ metadata }) => metadata.name)]);
  for (const name of secrets) await copy(SECRET, name);
  for (const name of run.mounted.configMaps) await copy(CONFIG_MAP, name);

  async function copy(kind: Resource, name: string): Promise<void> {
    const source = await get<Document>(client, kind, from, name);
    if (!source) return;
    const body = copyOf(source, to);
    const present = await get<Document>(client, kind, to, name);
    if (!present) {
      await client.call({ method: 'POST', path: pathOf(kind, to), body }).catch((error: unknown) => {
        if (!isAlreadyExists(error)) throw error;
      });
      tell('made', `${to}/${name}`);
    } else if (!isDeepStrictEqual(present.data, source.data)) {
      if (led)
        return tell('differs', `${to}/${name}`, `from what ${from} has: the operator has written it since`);
      const { resourceVersion } = present.metadata;
      const replacement = { ...body, metadata: { ...body.metadata, resourceVersion } };
      await client.call({ method: 'PUT', path: pathOf(kind, to, name), body: replacement });
      tell('updated', `${to}/${name}`, `from what ${from} has`);
    }
  }
}

/**
 * Runs after the upgrade: deletes Helm's records of revisions that created keys, since they contain those keys, and then
 * the copied objects from the release's namespace. In the other order a crash would leave a rollback to an operator
 * without its principals. Objects that were not copied stay.
 */
export async function clearOut({ run, client }: Move): Promise<void> {
  const { releaseNamespace: from, systemNamespace: to, space, given, tell } = run;
  const records = await list(client, SECRET, from, { labelSelector: `owner=helm,name=${space}` });
  for (const record of records) if (holdsSecrets(record)) await remove(SECRET, record, 'it had keys in it');
  const mine = materialsOf(run).filter(
    ({ value, places }) => places.includes('system') && !given.includes(value),
  );
  const named = new Set(mine.map(({ name }) => name));
  const kept = (await list(client, SECRET, from)).filter(
    (secret) => isKept(secret, space) || named.has(secret.metadata.name),
  );
  for (const secret of kept)
    if (await get(client, SECRET, to, secret.metadata.name)) await remove(SECRET, secret, `it is in ${to}`);
  const maps = run.certificates ? await list(client, CONFIG_MAP, from) : [];
  // The content is public, and is created again in the right namespace.
  for (const map of maps)
    if (map.metadata.name === AUTHORITY) await remove(CONFIG_MAP, map, 'nobody here needs it');

  async function remove(kind: Resource, { metadata }: KubeObject, why: string): Promise<void> {
    const { uid, resourceVersion } = metadata;
    const body = { preconditions: { uid, resourceVersion } };
    await client.call({ method: 'DELETE', path: pathOf(kind, from, metadata.name), body });
    tell('removed', `${from}/${metadata.name}`, why);
  }
}

/**
 * Whether a record of Helm renders a Secret. The record is compressed JSON in base64, which the API server encodes once
 * more. Helm passes over what it cannot read, and nobody else may be stopped by it.
 */
function holdsSecrets({ data }: Document): boolean {
  const record = Buffer.from(data?.['release'] ?? '', 'base64').toString('latin1');
  try {
    const { manifest, hooks } = JSON.parse(gunzipSync(Buffer.from(record, 'base64')).toString('utf8')) as {
      readonly manifest: string;
      readonly hooks?: readonly { readonly manifest: string }[];
    };
    const texts = [manifest, ...(hooks ?? []).map((hook) => hook.manifest)];
    return texts.some((text) => /^kind: Secret$/m.test(text));
  } catch {
    return false;
  }
}

/** Whether the operator created the object for a Capsule: principals and sealed inputs. */
const isKept = ({ metadata }: KubeObject, space: string) =>
  metadata.labels?.[SPACE] === space && metadata.annotations?.[OWNER] !== undefined;

/** Copies a Secret or ConfigMap without Helm's ownership marks. */
function copyOf({ type, data, metadata }: Document, namespace: string) {
  const { labels = {}, annotations = {}, name } = metadata;
  const own = ([key, value]: [string, string]) => !key.includes('helm.sh/') && value !== 'Helm';
  return {
    metadata: {
      name,
      namespace,
      labels: Object.fromEntries(Object.entries(labels).filter(own)),
      annotations: Object.fromEntries(Object.entries(annotations).filter(own)),
    },
    ...(type === undefined ? {} : { type }),
    data,
  };
}

/**
 * Stops the old operator, since what it wrote from now on would be lost. After a failed upgrade, a rollback creates its
 * Deployment again. One that was only scaled down would belong to this program in that field, and Helm would refuse the
 * rollback.
 */
async function endOperator(
  client: ApiClient,
  namespace: string,
  name: string,
  { space, wait }: { readonly space: string; readonly wait: () => Promise<void> },
): Promise<void> {
  if (await get(client, DEPLOYMENT, namespace, name))
    await client.call({ method: 'DELETE', path: pathOf(DEPLOYMENT, namespace, name), body: {} });
  const query = { labelSelector: `${SPACE}=${space},platform.space/component=operator` };
  while ((await list(client, POD, namespace, query)).length > 0) await wait();
}

async function get<T extends KubeObject>(
  client: ApiClient,
  kind: Resource,
  namespace: string,
  name: string,
): Promise<T | undefined> {
  try {
    return await client.call<T>({ method: 'GET', path: pathOf(kind, namespace, name) });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

async function list(
  client: ApiClient,
  kind: Resource,
  namespace: string,
  query: Readonly<Record<string, string>> = {},
): Promise<readonly Document[]> {
  const { items } = await client.call<{ readonly items: readonly Document[] }>({
    method: 'GET',
    path: pathOf(kind, namespace),
    query,
  });
  return items;
}
