import type { Assistant, Capsule } from './kinds.ts';
import { ANNOTATION } from './names.ts';
import type { Stores } from './stores.ts';

/** The condition `Ready` of an object; `Unknown` if it is not set yet. */
interface Verdict {
  readonly kind: 'Capsule' | 'Assistant';
  readonly ready: string;
  readonly reason: string;
}

/** What metrics count, read from the stores at each scrape. */
export interface Inventory {
  /** One verdict for each Capsule and Assistant. */
  readonly verdicts: () => Iterable<Verdict>;
  /** Kinds of the objects that somebody has opened to others with the annotation `platform.space/open`. */
  readonly opened: () => Iterable<'Namespace' | 'Capsule' | 'Assistant'>;
}

export function inventoryOf(stores: Stores): Inventory {
  return {
    *opened() {
      for (const { kind, store } of [
        { kind: 'Namespace', store: stores.namespaces },
        { kind: 'Capsule', store: stores.capsules },
        { kind: 'Assistant', store: stores.assistants },
      ] as const)
        for (const { metadata } of store.list())
          if (metadata.annotations?.[ANNOTATION.open] === 'true') yield kind;
    },
    *verdicts() {
      for (const capsule of stores.capsules.list()) yield verdictOf('Capsule', capsule);
      for (const assistant of stores.assistants.list()) yield verdictOf('Assistant', assistant);
    },
  };
}

function verdictOf(kind: Verdict['kind'], { status }: Capsule | Assistant): Verdict {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return { kind, ready: ready?.status ?? 'Unknown', reason: ready?.reason ?? 'Waiting' };
}
