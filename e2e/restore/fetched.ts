/** The state of a Space out of its backup, by a pod that reaches the bucket. */
import { outputOf, type Place } from './place.ts';
import { RestoreProblem } from './problem.ts';
import { type Known, openState, type State } from './state.ts';

export interface FetchContext {
  readonly space: string;
  readonly namespace: string;
  /** Identities of the recipient that the state was sealed for. */
  readonly identities: readonly string[];
}

/** The state of a moment, or the newest. @throws RestoreProblem if there is none, or only one of another Space */
export async function fetchedState(
  place: Place,
  { space, namespace, identities }: FetchContext,
  at: string | undefined,
  known: Known,
): Promise<State> {
  const moment = at === undefined ? [] : ['--at', at];
  const sealed = await outputOf(place, ['node', '/app/backup.mjs', 'state', ...moment]);
  const state = await openState(Buffer.from(sealed, 'base64'), identities, known);
  if (state.space !== space || state.namespaces.release !== namespace)
    throw new RestoreProblem(
      `the backup was made by the Space ${state.space} in the namespace ${state.namespaces.release}: give these names, with --space and --namespace. Nothing was changed`,
    );
  return state;
}
