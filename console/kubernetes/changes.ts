import * as z from 'zod';
import type { SpaceNames } from '../visit.ts';
import { type Ask, apiPath, type Caller, type Kubernetes, KubernetesError } from './client.ts';
import { assistantsPath, capsulesPath } from './space.ts';

/** The object of a page; without one, the page concerns everything. */
export interface About {
  readonly capsule?: string | undefined;
  readonly assistant?: string | undefined;
  /** Whether it also shows the Space's own programs, probes and nodes. */
  readonly hasMachinery?: boolean;
}

const NAMES = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io';
const LIST = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';
/** Seconds after which a watch ends, and with it the updates for a person who has lost the right to read. */
const WATCH_SECONDS = 240;

const list = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const event = z.object({
  type: z.string(),
  object: z.object({ metadata: z.object({ resourceVersion: z.string().default('') }).optional() }),
});

/** A list that has changed, and its resource version. */
export interface Change {
  readonly path: string;
  readonly version: string;
}

/**
 * Every later change of a page's lists, as far as the person may see it; ends with the first watch that ends. Throws if
 * the person may not see any.
 */
export async function changesOf(
  kubernetes: Kubernetes,
  caller: Caller,
  names: Places,
  about: About,
  signal: AbortSignal,
): Promise<AsyncIterable<Change>> {
  const watches = await watchable(
    watched(names, about).map(async ({ path, name }) => {
      const only: Record<string, string> =
        name === undefined ? {} : { fieldSelector: `metadata.name=${name}` };
      const now = list.parse(
        await kubernetes.ask(caller, { path, query: { ...only, limit: '1' }, accept: LIST }),
      );
      const { resourceVersion } = now.metadata;
      const query = { ...only, watch: 'true', timeoutSeconds: String(WATCH_SECONDS), resourceVersion };
      return { path, query, accept: NAMES } satisfies Ask;
    }),
  );
  const followed = watches.map(async (ask) => ({
    path: ask.path,
    events: await kubernetes.follow(caller, ask, signal),
  }));
  return merged(await Promise.all(followed));
}

type Places = Pick<SpaceNames, 'namespace' | 'systemNamespace' | 'servicesNamespace'>;

/** The lists that a page shows something of. */
function watched(
  { namespace, systemNamespace, servicesNamespace }: Places,
  { capsule, assistant, hasMachinery = false }: About,
): readonly { readonly path: string; readonly name?: string | undefined }[] {
  const own = [systemNamespace, servicesNamespace].flatMap((place) =>
    ['deployments', 'statefulsets'].map((kind) => apiPath`/apis/apps/v1/namespaces/${place}/${kind}`),
  );
  const machinery = [...own, apiPath`/api/v1/namespaces/${systemNamespace}/pods`, '/api/v1/nodes'];
  return [
    { path: capsulesPath(namespace), name: capsule },
    { path: assistantsPath(namespace), name: assistant },
    ...(hasMachinery ? machinery.map((path) => ({ path })) : []),
  ];
}

/** The watches that the person may open; if there is none, throws the first refusal. */
async function watchable<T>(asked: readonly Promise<T>[]): Promise<readonly T[]> {
  const settled = await Promise.allSettled(asked);
  const refused = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  const fatal = refused.find((error) => !(error instanceof KubernetesError && error.status === 403));
  const allowed = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  if (fatal !== undefined || allowed.length === 0) throw fatal ?? refused[0];
  return allowed;
}

/** Merges the streams in the order of arrival, until the first of them ends. */
async function* merged(
  watches: readonly { readonly path: string; readonly events: AsyncIterable<unknown> }[],
): AsyncGenerator<Change> {
  const sources = watches.map(({ path, events }) => ({ path, events: events[Symbol.asyncIterator]() }));
  const nexts = new Map(sources.map((source) => [source, nextOf(source)] as const));
  for (;;) {
    const { source, result } = await Promise.race(nexts.values());
    if (result.done === true) return;
    const { type, object } = event.parse(result.value);
    if (type === 'ERROR') return;
    nexts.set(source, nextOf(source));
    yield { path: source.path, version: object.metadata?.resourceVersion ?? '' };
  }
}

interface Source {
  readonly path: string;
  readonly events: AsyncIterator<unknown>;
}

async function nextOf(source: Source) {
  return { source, result: await source.events.next() };
}
