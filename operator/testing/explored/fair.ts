/**
 * Whether every deletion that was asked for ends, and every Capsule becomes ready, once nothing fails any more and nobody asks
 * for anything else.
 */

import type { Step } from '../../../testing/explore.ts';
import { Seen } from '../../../testing/explore.ts';
import type { Bounds } from './bounds.ts';
import { LATE } from './rules.ts';
import { keyOf, type State } from './state.ts';

/** What goes on by itself, step by step. */
export interface Machine {
  readonly initial: State;
  begins(state: State, slot: number): Step<State> | undefined;
  goesOn(state: State, slot: number): Step<State> | undefined;
  serves(state: State): readonly Step<State>[];
  cluster(state: State): readonly Step<State>[];
}

/** What never ends. */
export type Ends = (state: State) => string | undefined;

/** More steps than any deletion takes. */
const LONGEST = 600;

function unfinished(
  { capsule, assistant, namespace, principal, left }: State,
  { forced }: Bounds,
): string | undefined {
  if ([capsule, assistant].some((one) => one && one.deleted > 0)) return 'a deletion never ends';
  if (!capsule || capsule.ready) return undefined;
  // What somebody's force left, or what came late of an earlier one, is told, and stands in its way until somebody removes it.
  const isOthers = [namespace, principal?.retained ? undefined : principal].some(
    (one) => one && one.owner !== capsule.uid,
  );
  return left.forced === forced && !isOthers ? 'a Capsule never becomes ready' : undefined;
}

/**
 * A scheduler that gives each its turn, and is the same for the same state and turn: a run that meets what another has
 * passed ends as that did.
 */
export function endsOf(machine: Machine, bounds: Bounds): Ends {
  const ended = new Seen();
  return (from) => {
    let [state, turn] = [from, 0];
    const passed: string[] = [];
    for (let steps = 0; steps < LONGEST; steps += 1) {
      const key = `${turn}${keyOf(state)}`;
      if (unfinished(state, bounds) === undefined || ended.has(key)) {
        for (const one of passed) ended.add(one);
        return undefined;
      }
      passed.push(key);
      const next = busy(machine, state);
      if (next) state = next.to;
      else {
        const given = idle(machine, state, turn, bounds.hours);
        state = given ?? state;
        turn = (turn + 1) % 3;
      }
    }
    return unfinished(state, bounds);
  };
}

/** Every process that has begun continues, and the cluster does its work. */
function busy(machine: Machine, state: State): Step<State> | undefined {
  return (
    machine.goesOn(state, LATE) ??
    machine.serves({ ...state, left: { ...state.left, upkeeps: 0 } })[0] ??
    machine.goesOn(state, 0) ??
    machine.goesOn(state, 1) ??
    machine.cluster(state).find(({ label }) => label !== 'a pod starts')
  );
}

function idle(machine: Machine, state: State, turn: number, hours: number): State | undefined {
  if (turn < 2) return machine.begins(state, turn)?.to;
  return state.now <= hours + 1 ? { ...state, now: state.now + 1 } : undefined;
}
