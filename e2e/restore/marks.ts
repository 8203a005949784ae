import type { KubeObject } from '../space/kube-object.ts';
import { asApplied } from '../undelete/undelete.ts';

/** Says on a Capsule of what it is made again; nothing of it starts meanwhile. */
export const RESTORING = 'platform.space/restoring';
/** Words of the one who wrote them, to what was there then. */
const SAID = ['platform.space/rotate', 'platform.space/open'];

/** An object of a state as it is applied anew: with all that it holds, and without words that are not to be said again. */
export function asRestored(object: KubeObject, further: readonly string[] = []): KubeObject {
  const { annotations = {}, ...metadata } = asApplied(object).metadata;
  const kept = Object.entries(annotations).filter(([key]) => ![...SAID, ...further].includes(key));
  return {
    ...object,
    metadata: { ...metadata, ...(kept.length === 0 ? {} : { annotations: Object.fromEntries(kept) }) },
  };
}
