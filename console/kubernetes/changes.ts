import * as z from 'zod';
import type { SpaceNames } from '../visit.ts';
import { type Ask, apiPath, type Caller, type Kubernetes, KubernetesError } from './client.ts';
import { assistantsPath, capsulesPath } from './space.ts';

/** What a page is about; one that is about nothing in particular is about all. */
export interface About {
  readonly capsule?: string | undefined;
  readonly assistant?: string | undefined;
  /** Whether also the Space's own programs, probes and the nodes are on it. */
  readonly hasMachinery?: boolean;
}

const NAMES = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io';
const LIST = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';
/** A person who loses the right to read receives nothing more after this. */
const WATCH_SECONDS = 240;

const list = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const event = z.object({
  type: z.string(),
  object: z.object({ metadata: z.object({ resourceVersion: z.string().default('') }).optional() }),
});

/** Says that a list has changed, and in which resource version. */
export interface Change {
  readonly path: string;
  readonly version: string;
}

/**
 * Each change from now on of what a page is about, as the person who looks at it may see it; ends with the first watch that
 * ends. Throws where the person may not look.
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

/** Lists that a page shows something of. */
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

/** What the person may look at; where that is nothing, the first refusal. */
async function watchable<T>(asked: readonly Promise<T>[]): Promise<readonly T[]> {
  const settled = await Promise.allSettled(asked);
  const refused = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  const fatal = refused.find((error) => !(error instanceof KubernetesError && error.status === 403));
  const allowed = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  if (fatal !== undefined || allowed.length === 0) throw fatal ?? refused[0];
  return allowed;
}

/** One after the other as they come, until the first of them ends. */
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
