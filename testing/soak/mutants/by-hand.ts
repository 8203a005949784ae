/** Hand-written changes of security decisions that only tests with real servers can check: SQL, and code that calls it. */
import { type Mutant, patternOf } from './by-hand/mutant.ts';
import { runTests } from './by-hand/tests.ts';
import { copyTree, type Tree } from './by-hand/tree.ts';
import type { Tried } from './tried.ts';

export async function tryByHand(mutants: readonly Mutant[], say: (tried: Tried) => void): Promise<void> {
  if (mutants.length === 0) return;
  const tree = await copyTree();
  try {
    for (const [file, group] of Map.groupBy(mutants, ({ suite }) => suite.file)) {
      const sound = await triable(tree, file, group);
      for (const mutant of group)
        say({
          ...{ file: mutant.file, where: mutant.file, change: mutant.decision },
          verdict: sound.has(mutant) ? await verdictOn(tree, mutant) : 'not tried',
        });
    }
  } finally {
    await tree.remove();
  }
}

/** The mutants whose test exists and passes without the mutation, since only then a failure means something. */
async function triable(tree: Tree, file: string, group: readonly Mutant[]): Promise<ReadonlySet<Mutant>> {
  const patterns = [...new Set(group.map(patternOf))];
  const ran = await runTests(tree.root, file, patterns.map((one) => `(?:${one})`).join('|'));
  const isSound = (mutant: Mutant) => {
    const own = ran.filter(({ name }) => new RegExp(patternOf(mutant)).test(name));
    return own.length > 0 && own.every(({ passed }) => passed);
  };
  return new Set(group.filter(isSound));
}

async function verdictOn(tree: Tree, mutant: Mutant): Promise<Tried['verdict']> {
  const ran = await tree.broken(mutant, () => runTests(tree.root, mutant.suite.file, patternOf(mutant)));
  return ran.some(({ passed }) => !passed) ? 'killed' : 'survived';
}
