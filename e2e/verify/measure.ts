/** Has every pod of a Space and of the scene look at everything, and holds what they saw against the arrows. */
import type { Kube } from '../space/kube.ts';
import { FREE } from './arrows.ts';
import { ask } from './ask.ts';
import { type Around, sourcesOf, targetsAtPod } from './discover.ts';
import { type Cell, compare, type Seen, type Sightings, type Target } from './matrix.ts';
import type { Scene } from './scene.ts';

/** Many looks at once would make each other late. */
const AT_ONCE = 8;

interface Looked {
  readonly cells: readonly Cell[];
  readonly notes: readonly string[];
  readonly seen: Sightings;
}

/** Every pod of the Space and of the scene looks at everything, or those `whom` takes. */
export async function measure(
  kube: Kube,
  around: Around,
  scene: Scene,
  targets: readonly Target[],
  say: (sources: number, targets: number) => void = () => {},
  whom: (name: string) => boolean = () => true,
): Promise<Looked> {
  const sources = [...scene.sources, ...sourcesOf(around)].filter(({ name }) => whom(name));
  const all = [...targets, ...targetsAtScene(scene)];
  say(sources.length, all.length);
  const seen = new Map<string, ReadonlyMap<string, Seen>>();
  const notes: string[] = [];
  // The canary's one program takes its time: it begins first.
  const waiting = sources.toSorted((a, b) => Number(b.party === 'canary') - Number(a.party === 'canary'));
  const turns = Array.from({ length: AT_ONCE }, async () => {
    for (let source = waiting.shift(); source !== undefined; source = waiting.shift()) {
      const answer = await ask(kube, source, all);
      seen.set(source.name, answer.seen);
      if (answer.note !== undefined) notes.push(answer.note);
    }
  });
  await Promise.all(turns);
  return { cells: compare(sources, all, seen), notes, seen };
}

/** Those who have walls: an Assistant listens, and who stands for others has nothing there that would answer. */
const targetsAtScene = ({ sources }: Scene): Target[] =>
  sources
    .filter(({ party }) => !FREE.includes(party))
    .flatMap(({ name, party, pod }) =>
      targetsAtPod(name, party, pod, [8080]).map((target) => ({
        ...target,
        listens: target.listens && party === 'assistant',
      })),
    );
