import type { Context } from './context.ts';
import type { Stores } from './stores.ts';

/**
 * Forgets what is remembered of Capsules and Assistants that are gone, also of those whose finalizer somebody removed
 * by force, so that they were not finalized.
 */
export function forgetGone(
  { capsules, assistants }: Pick<Stores, 'capsules' | 'assistants'>,
  {
    databaseUsages,
    objectUsages,
    appUsages,
    selections,
  }: Pick<Context, 'databaseUsages' | 'objectUsages' | 'appUsages' | 'selections'>,
): void {
  capsules.onChange(({ before, now }) => {
    const { uid = '', name = '' } = before?.metadata ?? {};
    if (now?.metadata.uid === uid) return;
    databaseUsages.forget(uid);
    objectUsages.forget(uid);
    selections.forget(name);
  });
  assistants.onChange(({ before, now }) => {
    const { uid = '' } = before?.metadata ?? {};
    if (now?.metadata.uid !== uid) appUsages.forget(uid);
  });
}
