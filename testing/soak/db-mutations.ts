import { ACCESS } from './db-mutations/access.ts';
import { DOORS } from './db-mutations/doors.ts';
import { type Mutant, patternOf } from './db-mutations/mutant.ts';
import { SHARES } from './db-mutations/shares.ts';
import { runTests } from './db-mutations/tests.ts';
import { copyTree, type Tree } from './db-mutations/tree.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Tests that start no server. */
const QUICK: ReadonlySet<string> = new Set(
  ['core/decide', 'core/names', 'core/quota', 'isolation/drift', 'limits/sessions'].map(
    (name) => `brokers/db/${name}.test.ts`,
  ),
);

type Verdict = 'killed' | 'survived' | 'its test does not pass unbroken';

/** Each security decision of the database broker, broken in a copy of the sources: its test must fail then. */
export async function run({ quick, only }: SoakOptions): Promise<SoakReport> {
  const wanted = [...ACCESS, ...DOORS, ...SHARES].filter(
    ({ file, suite }) =>
      (!quick || QUICK.has(suite.file)) && (only?.some((part) => file.includes(part)) ?? true),
  );
  const tree = await copyTree();
  const rows: { decision: string; file: string; test: string; verdict: Verdict }[] = [];
  try {
    for (const [file, group] of Map.groupBy(wanted, ({ suite }) => suite.file)) {
      const sound = await soundOnes(tree, file, group);
      for (const mutant of group) {
        const verdict = sound.has(mutant) ? await verdictOn(tree, mutant) : 'its test does not pass unbroken';
        const { decision, file: broken, test } = mutant;
        rows.push({ decision, file: broken, test, verdict });
        console.error(`${verdict}: ${decision} (${broken})`);
      }
    }
  } finally {
    await tree.remove();
  }
  const count = (verdict: Verdict) => rows.filter((row) => row.verdict === verdict).length;
  const killed = count('killed');
  return {
    passed: killed === rows.length && rows.length > 0,
    title: 'Database broker: a line of each security decision broken',
    rows,
    figures: { mutants: rows.length, killed, survived: count('survived') },
  };
}

/** Those whose test is there and passes while nothing is broken: only of these a failure says something. */
async function soundOnes(tree: Tree, file: string, group: readonly Mutant[]): Promise<ReadonlySet<Mutant>> {
  const patterns = [...new Set(group.map(patternOf))];
  const ran = await runTests(tree.root, file, patterns.map((one) => `(?:${one})`).join('|'));
  const isSound = (mutant: Mutant) => {
    const own = ran.filter(({ name }) => new RegExp(patternOf(mutant)).test(name));
    return own.length > 0 && own.every(({ passed }) => passed);
  };
  return new Set(group.filter(isSound));
}

async function verdictOn(tree: Tree, mutant: Mutant): Promise<Verdict> {
  const ran = await tree.broken(mutant, () => runTests(tree.root, mutant.suite.file, patternOf(mutant)));
  return ran.some(({ passed }) => !passed) ? 'killed' : 'survived';
}
