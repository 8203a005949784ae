/** Omits or widens each statement that grants rights on PostgreSQL, in a copy of the sources, and checks that a test with a real server fails. */
import { runTests } from '../mutants/by-hand/tests.ts';
import { copyTree, type Tree } from '../mutants/by-hand/tree.ts';
import type { Mutant, Tests } from './grants/mutant.ts';
import { GRANTS } from './grants/mutants.ts';
import { reasonOf } from './grants/reasons.ts';
import type { Part, Tried } from './part.ts';

/** The quick run takes some minutes. */
const QUICK_EACH = 8;

export const grants: Part = {
  name: 'grants',
  async tryAll({ quick, only }) {
    const wanted = GRANTS.filter(
      ({ file }) => only.length === 0 || only.some((word) => file.includes(word)),
    ).filter((_, i) => !quick || i % QUICK_EACH === 0);
    const tree = await copyTree();
    try {
      for (const tests of new Set(wanted.map((mutant) => mutant.tests))) await requireSound(tree, tests);
      const tried: Tried[] = [];
      for (const mutant of wanted) {
        const { file, change } = mutant;
        const shown = await shownBy(tree, mutant);
        console.error(`… ${file}: ${change}: ${shown ?? 'SURVIVED'}`);
        tried.push({
          protection: file,
          change,
          shown,
          reason: shown === undefined ? reasonOf(file, change) : undefined,
        });
      }
      return tried;
    } finally {
      await tree.remove();
    }
  },
};

/** @throws Error unless these tests pass without a mutation, since only then a failure means something */
async function requireSound({ root }: Tree, { file, pattern }: Tests): Promise<void> {
  const ran = await runTests(root, file, pattern);
  const failed = ran.find(({ passed }) => !passed);
  if (ran.length === 0 || failed !== undefined)
    throw new Error(`without any change, ${file} does not pass: ${failed?.name ?? 'no test ran'}`);
}

async function shownBy(tree: Tree, mutant: Mutant): Promise<string | undefined> {
  const { file, pattern } = mutant.tests;
  const ran = await tree.broken(mutant, () => runTests(tree.root, file, pattern));
  // If the set-up fails, no test runs.
  if (ran.length === 0) return `${file}: set-up`;
  return ran.find(({ passed }) => !passed)?.name;
}
