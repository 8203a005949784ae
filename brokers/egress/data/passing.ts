import type { Turns } from '@space/broker-kit';
import type { Usage } from './usage.ts';

/** How the bytes of a Capsule's tunnels and requests are passed on. */
export interface Passing {
  /** Whether another Capsule has tunnels or requests, or had some a moment ago. */
  readonly isShared: () => boolean;
  /** Runs a piece of work in the Capsule's turn, for which so many milliseconds were used before it. */
  readonly inTurn: (act: () => void, owedMs?: number) => void;
}

export const passingFor = (
  { usage, turns }: { readonly usage: Pick<Usage, 'hasOther'>; readonly turns: Turns },
  capsule: string,
): Passing => ({
  isShared: () => usage.hasOther(capsule),
  inTurn: (act, owedMs) => void turns.run(capsule, act, owedMs),
});
