import type { KubeObject } from '../space/kube-object.ts';
import { asApplied } from '../undelete/undelete.ts';

/** Says on a Capsule what it is restored from; meanwhile nothing of it starts. */
export const RESTORING = 'platform.space/restoring';
/** Annotations by which a person asked for one action at that time. */
const SAID = ['platform.space/rotate', 'platform.space/open'];

/**
 * An object of a state as it is applied again: with all its content, and without annotations that asked for one
 * action.
 */
export function asRestored(object: KubeObject, further: readonly string[] = []): KubeObject {
  const { annotations = {}, ...metadata } = asApplied(object).metadata;
  const kept = Object.entries(annotations).filter(([key]) => ![...SAID, ...further].includes(key));
  return {
    ...object,
    metadata: { ...metadata, ...(kept.length === 0 ? {} : { annotations: Object.fromEntries(kept) }) },
  };
}
