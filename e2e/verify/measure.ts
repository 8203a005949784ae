/** Makes every pod of a Space and every prober try every target, and compares the results with the arrows. */
import type { Kube } from '../space/kube.ts';
import type { Party } from './arrows.ts';
import { ask } from './ask.ts';
import { PORT } from './bystanders.ts';
import { type Discovered, sourcesOf, targetsAtPod } from './discover.ts';
import { type Cell, compare, type Outcome, type Outcomes, type Target } from './matrix.ts';
import type { Probers } from './probers.ts';

/** More pods at once would delay each other. */
const AT_ONCE = 8;

interface Looked {
  readonly cells: readonly Cell[];
  /** Probes that gave no answer, and why. */
  readonly unanswered: readonly string[];
  readonly seen: Outcomes;
}

/** Every pod of the Space and every prober tries everything, or only those that `whom` accepts. */
export async function measure(
  kube: Kube,
  around: Discovered,
  probers: Probers,
  targets: readonly Target[],
  say: (sources: number, targets: number) => void = () => {},
  whom: (name: string) => boolean = () => true,
): Promise<Looked> {
  const sources = [...probers.sources, ...sourcesOf(around)].filter(({ name }) => whom(name));
  const all = [...targets, ...targetsAtProbers(probers)];
  say(sources.length, all.length);
  const seen = new Map<string, ReadonlyMap<string, Outcome>>();
  const unanswered: string[] = [];
  // The canary's program takes longest, so it begins first.
  const waiting = sources.toSorted((a, b) => Number(b.party === 'canary') - Number(a.party === 'canary'));
  const turns = Array.from({ length: AT_ONCE }, async () => {
    for (let source = waiting.shift(); source !== undefined; source = waiting.shift()) {
      const answer = await ask(kube, around.picture, source, all);
      seen.set(source.name, answer.seen);
      if (answer.note !== undefined) unanswered.push(answer.note);
    }
  });
  await Promise.all(turns);
  return { cells: compare(around.picture, sources, all, seen), unanswered, seen };
}

/** Parties without a policy of their own are targets only if the caller's policy closes them. */
const OPEN: readonly Party[] = ['client', 'neighbour'];
const ANY_DNS_PORT = 53;

/** Each of them listens, so that only a network policy can make it silent. */
const targetsAtProbers = ({ sources }: Probers): Target[] =>
  sources
    .filter(({ party }) => !OPEN.includes(party))
    .flatMap(({ name, party, pod }) =>
      targetsAtPod(name, party, pod, party === 'stranger' ? [ANY_DNS_PORT, PORT] : [PORT]),
    );
