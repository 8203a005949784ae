import { BOUNDS, DEFECTS, LARGE } from '../../brokers/objectstore/byok/custody/testing/explored/bounds.ts';
import { custodySpace } from '../../brokers/objectstore/byok/custody/testing/explored/machine.ts';
import { explore } from '../explore.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** The most states for a defect, whose shortest traces are short. */
const MOST_OF_DEFECT = 200_000;

/** Explores every interleaving of the custody's protocol within bounds; then the same with each seeded defect, until it is found. */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const most = quick ? 300_000 : 4_000_000;
  const spaces = { ...BOUNDS, ...(quick ? {} : LARGE) };
  const wrongs: string[] = [];
  let states = 0;
  const rows = Object.entries(spaces).map(([name, bounds]) => {
    const explored = explore(custodySpace(bounds), most);
    states += explored.states;
    const { wrong } = explored;
    if (wrong !== undefined) wrongs.push(`${name}: ${wrong.what}\n  ${wrong.trace.join('\n  ')}`);
    console.error(`… ${name}: ${explored.states} states`);
    return {
      what: name,
      states: explored.states,
      steps: explored.steps,
      ended: wrong !== undefined ? 'VIOLATION' : explored.exhausted ? 'all states explored' : 'bound reached',
    };
  });
  const defects = DEFECTS.map((defect) => {
    for (const bounds of Object.values(BOUNDS)) {
      const { states: seen, steps, wrong } = explore(custodySpace(bounds, defect), MOST_OF_DEFECT);
      if (wrong !== undefined)
        return { what: `a custody that ${defect}`, states: seen, steps, ended: wrong.what };
    }
    return { what: `a custody that ${defect}`, states: 0, steps: 0, ended: 'DEFECT NOT FOUND' };
  });
  const missed = defects.filter(({ states: seen }) => seen === 0).length;
  return {
    title:
      'Custody: every interleaving of changes, readers, crashes, late writes, restores and decisions within bounds',
    rows: [...rows, ...defects],
    figures: { states, violations: wrongs.length, defects: defects.length, defects_missed: missed },
    notes: wrongs,
    passed: wrongs.length === 0 && missed === 0,
  };
}
