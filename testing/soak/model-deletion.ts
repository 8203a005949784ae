import { BOUNDS, LARGE, SEEDED } from '../../operator/testing/explored/bounds.ts';
import { deletionSpace } from '../../operator/testing/explored/machine.ts';
import { explore } from '../explore.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** The most states for a defect, whose shortest traces are short. */
const MOST_OF_DEFECT = 200_000;
const NOT_FOUND = 'DEFECT NOT FOUND';

const traceOf = (what: string, trace: readonly string[]) => `${what}\n  ${trace.join('\n  ')}`;

/** Explores every interleaving of deletions within bounds; then the same with each seeded defect, until it is found. */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const most = quick ? 100_000 : 5_000_000;
  const wrongs: string[] = [];
  let states = 0;
  const begun = performance.now();
  const rows = Object.entries({ ...BOUNDS, ...LARGE }).map(([name, bounds]) => {
    const explored = explore(deletionSpace(bounds), most);
    states += explored.states;
    const { wrong, exhausted, depth, steps } = explored;
    if (wrong !== undefined) wrongs.push(traceOf(`${name}: ${wrong.what}`, wrong.trace));
    console.error(`… ${name}: ${explored.states} states`);
    const ended = wrong !== undefined ? 'VIOLATION' : exhausted ? 'all states explored' : 'bound reached';
    return { what: name, states: explored.states, steps, depth, ended };
  });
  const seconds = (performance.now() - begun) / 1000;
  const defects = SEEDED.map(([defect, bounds]) => {
    const { wrong, ...explored } = explore(deletionSpace(BOUNDS[bounds], defect), MOST_OF_DEFECT);
    const { states: seen, steps, depth } = explored;
    const what = `a Space that ${defect}`;
    if (wrong !== undefined) console.error(traceOf(`… ${what}: ${wrong.what}`, wrong.trace));
    return { what, states: seen, steps, depth, ended: wrong?.what ?? NOT_FOUND };
  });
  const missed = defects.filter(({ ended }) => ended === NOT_FOUND).length;
  return {
    title:
      'Deletions: every interleaving of operators, broker, cluster and administrators, of crashes, lost answers and late writes within bounds',
    rows: [...rows, ...defects],
    figures: {
      states,
      states_per_second: Math.round(states / Math.max(1, seconds)),
      violations: wrongs.length,
      defects: defects.length,
      defects_missed: missed,
    },
    notes: wrongs,
    passed: wrongs.length === 0 && missed === 0,
  };
}
