/** Whether every deletion that was asked for ends once nothing fails any more and nobody asks for anything else. */

import type { Step } from '../../../testing/explore.ts';
import { Seen } from '../../../testing/explore.ts';
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

export type Ends = (state: State) => boolean;

/** More steps than any deletion takes. */
const LONGEST = 600;

const goes = ({ capsule, assistant }: State) => [capsule, assistant].some((one) => one && one.deleted > 0);

/**
 * A scheduler that gives each its turn, and is the same for the same state and turn: a run that meets what another has
 * passed ends as that did.
 */
export function endsOf(machine: Machine, hours: number): Ends {
  const ended = new Seen();
  return (from) => {
    let [state, turn] = [from, 0];
    const passed: string[] = [];
    for (let steps = 0; steps < LONGEST; steps += 1) {
      const key = `${turn}${keyOf(state)}`;
      if (!goes(state) || ended.has(key)) {
        for (const one of passed) ended.add(one);
        return true;
      }
      passed.push(key);
      const next = busy(machine, state);
      if (next) state = next.to;
      else {
        const given = idle(machine, state, turn, hours);
        state = given ?? state;
        turn = (turn + 1) % 3;
      }
    }
    return false;
  };
}

/** Whoever has begun goes on, and the cluster does its work. */
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
