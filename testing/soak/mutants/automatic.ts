import type { Changed } from './changed.ts';
import { isEquivalent } from './equivalent.ts';
import { FILES, mutantsOfFile, ROOT } from './files.ts';
import { nearestTests, ownFirst } from './nearest.ts';
import type { AutomaticMutant } from './operators.ts';
import { Session } from './session.ts';
import type { Tried } from './tried.ts';

/** The mutants of all selected files, on the selected lines. */
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
    // Other tests run only if a mutant survives the file's own.
    const { own, others } = ownFirst(file, nearest(file));
    const sessions = [own, others]
      .filter(({ length }) => length > 0)
      .map((tests) => new Session({ file, tests }));
    try {
      for (const mutant of group) {
        const { line, change } = mutant;
        const verdict = isEquivalent(mutant) ? 'equivalent' : await tryIn(sessions, mutant);
        say({ ...{ file, where: `${file}:${line}`, change, verdict } });
      }
    } finally {
      await Promise.all(sessions.map((session) => session.close()));
    }
  }
}

async function tryIn(sessions: readonly Session[], mutant: AutomaticMutant): Promise<Tried['verdict']> {
  for (const session of sessions) {
    const verdict = await session.try(mutant);
    if (verdict !== 'survived') return verdict;
  }
  return 'survived';
}
