import * as z from 'zod';
import type { SpaceNames } from '../visit.ts';
import type { Ask, Caller, Kubernetes } from './client.ts';
import { assistantsPath, capsulesPath } from './space.ts';

/** What a page is about; one that is about nothing in particular is about all. */
export interface About {
  readonly capsule?: string | undefined;
  readonly assistant?: string | undefined;
}

const NAMES = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io';
const LIST = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';
/** Whoever loses the right to look is told nothing more after this. */
const WATCH_SECONDS = 240;

const list = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const event = z.object({
  type: z.string(),
  object: z.object({ metadata: z.object({ resourceVersion: z.string().default('') }).optional() }),
});

/** That a list has changed, and what version of the API server's state says so. */
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
  { namespace }: Pick<SpaceNames, 'namespace'>,
  about: About,
  signal: AbortSignal,
): Promise<AsyncIterable<Change>> {
  const paths = [
    [capsulesPath(namespace), about.capsule],
    [assistantsPath(namespace), about.assistant],
  ] as const;
  const watches = await Promise.all(
    paths.map(async ([path, name]) => {
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
