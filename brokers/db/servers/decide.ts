import type { Principal } from '@space/broker-kit/principals';

/** Pure decisions about several servers: which one has a Capsule or gets a new one, and whose a principal is. */

/** What the first server's registry stores about a Capsule's place. */
export interface Placed {
  /** Null if no server was noted. */
  readonly server: string | null;
  readonly movingTo: string | null;
  /** Whether that registry has the Capsule itself. */
  readonly onMain: boolean;
}

export type Route =
  | { readonly kind: 'server'; readonly name: string }
  | { readonly kind: 'moving' }
  | { readonly kind: 'not configured'; readonly name: string }
  | { readonly kind: 'unplaced' };

/**
 * The route to a Capsule. Without a note, a Capsule in the first server's registry is on that server, since it was
 * created before there were others.
 */
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
  /** The server's answer; undefined if it did not answer. */
  readonly load?:
    | {
        /** Capsules that are on the server or will be soon. */
        readonly capsules: number;
        /** Whether the server has enough connections for one more Assistant. */
        readonly room: boolean;
      }
    | undefined;
}

export type Choice =
  | { readonly kind: 'server'; readonly name: string }
  /** Every server that accepts new Capsules has answered, and none has room. */
  | { readonly kind: 'full' }
  | { readonly kind: 'unanswered' };

/** The server with the fewest Capsules for its weight, counting the new one; the first of equal ones. */
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

/** What a server knows of a principal; undefined if it does not answer. */
export type Knowledge = { readonly principal: Principal | undefined } | undefined;

export type Verdict =
  | { readonly kind: 'known'; readonly principal: Principal }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unanswered' };

/** At most one server may know a principal. If a server does not answer, it is unknown whether that one does. */
export function judgePrincipal(answers: readonly Knowledge[]): Verdict {
  const known = answers.flatMap((answer) => answer?.principal ?? []);
  const [principal, ...more] = known;
  if (more.length > 0) return { kind: 'unknown' };
  if (principal !== undefined) return { kind: 'known', principal };
  return { kind: answers.includes(undefined) ? 'unanswered' : 'unknown' };
}
