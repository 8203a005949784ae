import type { Principal } from '@space/broker-kit/principals';

/** Pure decisions about several servers: who has a Capsule, which one gets it, and what they know of a principal. */

/** What the first server's registry says of where a Capsule is. */
export interface Placed {
  /** Null where nothing was ever noted. */
  readonly server: string | null;
  readonly movingTo: string | null;
  /** Whether that registry itself knows the Capsule. */
  readonly onMain: boolean;
}

export type Route =
  | { readonly kind: 'server'; readonly name: string }
  | { readonly kind: 'moving' }
  | { readonly kind: 'not configured'; readonly name: string }
  | { readonly kind: 'unplaced' };

/** A Capsule without a note that the first server's registry knows is that server's: it was there before the others were. */
export function decideRoute(placed: Placed, main: string, configured: ReadonlySet<string>): Route {
  const name = placed.server ?? (placed.onMain ? main : undefined);
  if (name === undefined) return { kind: 'unplaced' };
  if (placed.movingTo !== null) return { kind: 'moving' };
  return { kind: configured.has(name) ? 'server' : 'not configured', name };
}

export interface Candidate {
  readonly name: string;
  readonly weight: number;
  readonly drain: boolean;
  /** What it said; undefined where it did not answer. */
  readonly load?:
    | {
        /** Capsules that are on it, or are about to be. */
        readonly capsules: number;
        /** Whether it has the connections of one more Assistant. */
        readonly room: boolean;
      }
    | undefined;
}

export type Choice =
  | { readonly kind: 'server'; readonly name: string }
  /** Every server that takes new Capsules has answered, and none has room. */
  | { readonly kind: 'full' }
  | { readonly kind: 'unanswered' };

/** The server that has the fewest Capsules for its weight once it has one more; of equal ones the first. */
export function chooseServer(candidates: readonly Candidate[]): Choice {
  const open = candidates.filter(({ drain }) => !drain);
  let best: { readonly name: string; readonly share: number } | undefined;
  for (const { name, weight, load } of open) {
    if (load?.room !== true) continue;
    const share = (load.capsules + 1) / weight;
    if (best === undefined || share < best.share) best = { name, share };
  }
  if (best !== undefined) return { kind: 'server', name: best.name };
  return { kind: open.some(({ load }) => load === undefined) ? 'unanswered' : 'full' };
}

/** What one server says of a principal; undefined where it does not answer. */
export type Knowledge = { readonly principal: Principal | undefined } | undefined;

export type Verdict =
  | { readonly kind: 'known'; readonly principal: Principal }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unanswered' };

/** Exactly one server may know a principal. One that does not answer leaves open what the others do not know. */
export function judgePrincipal(answers: readonly Knowledge[]): Verdict {
  const known = answers.flatMap((answer) => answer?.principal ?? []);
  const [principal, ...more] = known;
  if (more.length > 0) return { kind: 'unknown' };
  if (principal !== undefined) return { kind: 'known', principal };
  return { kind: answers.includes(undefined) ? 'unanswered' : 'unknown' };
}
