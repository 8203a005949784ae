import type { Changed } from './changed.ts';
import { isEquivalent } from './equivalent.ts';
import { FILES, mutantsOfFile, ROOT } from './files.ts';
import { nearestTests } from './nearest.ts';
import type { AutomaticMutant } from './operators.ts';
import { Session } from './session.ts';
import type { Tried } from './tried.ts';

/** The mutants of all files that are wanted, on the lines that are. */
export const automaticOnes = (
  isWanted: (file: string) => boolean,
  changed: Changed = () => true,
): AutomaticMutant[] =>
  FILES.filter(isWanted)
    .flatMap(mutantsOfFile)
    .filter(({ file, line }) => changed(file, line));

export async function tryAutomatic(
  mutants: readonly AutomaticMutant[],
  say: (tried: Tried) => void,
): Promise<void> {
  const nearest = nearestTests(ROOT);
  for (const [file, group] of Map.groupBy(mutants, (mutant) => mutant.file)) {
    const session = new Session({ file, tests: nearest(file) });
    try {
      for (const mutant of group) {
        const { line, change } = mutant;
        const verdict = isEquivalent(mutant) ? 'equivalent' : await session.try(mutant);
        say({ ...{ file, where: `${file}:${line}`, change, verdict } });
      }
    } finally {
      await session.close();
    }
  }
}
