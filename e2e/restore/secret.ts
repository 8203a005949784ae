/** Restores one Secret of a Space from its backup, where it was lost. */
import type { Steps } from '../progress/index.ts';
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { type FetchContext, fetchedState } from './fetched.ts';
import { phaseOf, removePod } from './fill.ts';
import { asRestored } from './marks.ts';
import { placeOf } from './place.ts';
import { knownTo, statePodBesideSpace } from './pods.ts';
import { RestoreProblem } from './problem.ts';
import type { State } from './state.ts';

export interface SecretRestore extends FetchContext {
  readonly kube: Kube;
  readonly secret: string;
  readonly at: string | undefined;
  readonly steps: Steps;
  readonly signal: AbortSignal;
}

export interface RestoredSecret {
  /** The time of the state that it comes from. */
  readonly state: string;
  /** Namespaces in which it was restored. */
  readonly putBack: readonly string[];
}

export async function restoreSecret(about: SecretRestore): Promise<RestoredSecret> {
  const { kube, space, at, steps, secret } = about;
  const cron = await kube.get('cronjob', 'backup', `${space}-services`);
  if (cron === undefined)
    throw new RestoreProblem(
      `no Space ${space} with a backup runs in this cluster: name another with --space, or restore a whole Space, without --secret`,
    );
  const pod = statePodBesideSpace([cron]);
  try {
    const state = await steps.run('decrypt the state', async () => {
      await removePod(kube, pod);
      await kube.apply(pod);
      await phaseOf(about, pod, ['Running']);
      return fetchedState(placeOf(kube, pod), about, at, knownTo([cron]));
    });
    return await steps.run(`restore Secret ${secret}`, async () => ({
      state: state.taken,
      putBack: await putBack(kube, secretsIn(state, secret)),
    }));
  } finally {
    await kube.remove('pod', pod.metadata.name, pod.metadata.namespace);
  }
}

/** It may be in several of the Space's namespaces. @throws RestoreProblem if it is in none */
export function secretsIn({ taken, objects }: State, name: string): readonly KubeObject[] {
  const found = objects.filter(({ kind, metadata }) => kind === 'Secret' && metadata.name === name);
  if (found.length > 0) return found;
  throw new RestoreProblem(
    `the state of ${taken} has no Secret ${name}: give another time, with --at. Nothing was changed`,
  );
}

/** An existing Secret is not changed. */
export async function putBack(kube: Kube, secrets: readonly KubeObject[]): Promise<readonly string[]> {
  const lost: KubeObject[] = [];
  for (const one of secrets)
    if ((await kube.get('secret', one.metadata.name, one.metadata.namespace)) === undefined) lost.push(one);
  if (lost.length === 0)
    throw new RestoreProblem(
      `Secret ${secrets[0]?.metadata.name} exists in every namespace where the backup has it, and a restore does not overwrite it: delete it first if its content was lost. Nothing was changed`,
    );
  await kube.apply(...lost.map((one) => asRestored(one)));
  return lost.map(({ metadata }) => metadata.namespace ?? '');
}
