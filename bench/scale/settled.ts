import type * as kinds from '../../operator/kinds.ts';
import {
  type Followed,
  isSettledAssistant,
  isSettledCapsule,
  type PopulationSize,
} from '../operator/population.ts';
import { LIVE } from './live.ts';

const LIMIT_MS = 15 * 60_000;
const TELL_MS = 10_000;

/** Resolves to the time at which the last object was settled; meanwhile prints how many are not. */
export async function settled(
  capsules: Followed<kinds.Capsule>,
  assistants: Followed<kinds.Assistant>,
  size: PopulationSize,
  say: (what: string) => void,
): Promise<number> {
  const each = size.assistants / size.capsules;
  const open = new Set<string>();
  const done = Promise.withResolvers<number>();
  const look = (key: string, isSettled: boolean) => {
    if (isSettled) open.delete(key);
    else open.add(key);
    if (open.size === 0) done.resolve(performance.now());
  };
  const ofCapsule = (capsule: kinds.Capsule) =>
    capsule.metadata.name === LIVE || isSettledCapsule(capsule, each);
  for (const one of capsules.store.list()) if (!ofCapsule(one)) open.add(`c ${one.metadata.name}`);
  for (const one of assistants.store.list()) if (!isSettledAssistant(one)) open.add(`a ${one.metadata.name}`);
  capsules.store.onChange(({ now }) => now && look(`c ${now.metadata.name}`, ofCapsule(now)));
  assistants.store.onChange(({ now }) => now && look(`a ${now.metadata.name}`, isSettledAssistant(now)));
  const late = setTimeout(
    () => done.reject(new Error(`${open.size} Capsules and Assistants did not settle in time`)),
    LIMIT_MS,
  );
  const telling = setInterval(() => say(`${open.size} Capsules and Assistants are not settled yet`), TELL_MS);
  return done.promise.finally(() => {
    clearTimeout(late);
    clearInterval(telling);
  });
}
