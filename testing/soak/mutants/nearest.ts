import { startingPrograms } from '../../../scripts/imports/programs.ts';
import { type Exported, exportedBy, importsOf, sourcesOf } from '../../../scripts/imports/read.ts';

/** More seldom find what these do not, and each takes its time with each mutant that survives. */
const MOST = 6;
/** Starts openssl alone, which takes a moment; tests that start a server or more are too slow to run for each mutant. */
const QUICK_TO_START = 'testing/certificates.ts';
/** Imports that such a test may be further away than the nearest. */
const FURTHER = 1;

/** Finds the unit tests that run a file, by what they import: those that are fewest imports away first. */
export function nearestTests(root: string): (file: string) => readonly string[] {
  const sources = sourcesOf(root);
  const exported: Exported = exportedBy(root);
  const starting = startingPrograms(new Map([...sources, [QUICK_TO_START, '']]), exported);
  const importers = new Map<string, Set<string>>();
  for (const [file, text] of sources)
    for (const { target, isType } of importsOf(file, text, exported))
      if (!isType) importers.set(target, (importers.get(target) ?? new Set()).add(file));
  return (file) => {
    const steps = new Map([[file, 0]]);
    // A map gives out also what is added to it meanwhile, so nearer ones come first.
    for (const [one, away] of steps)
      for (const importer of importers.get(one) ?? [])
        if (!steps.has(importer)) steps.set(importer, away + 1);
    const tests = [...steps].filter(([one]) => one.endsWith('.test.ts') && !starting.has(one));
    const [, first = 0] = tests[0] ?? [];
    const own = file.replace(/\.ts$/, '.test.ts');
    return tests
      .filter(([, away]) => away <= first + FURTHER)
      .map(([test]) => test)
      .sort((a, b) => Number(b === own) - Number(a === own))
      .slice(0, MOST);
  };
}

/** Which of a file's tests are beside it and have its name: `x.test.ts` and `x-more.test.ts` of `x.ts`. */
export function ownFirst(
  file: string,
  tests: readonly string[],
): { readonly own: readonly string[]; readonly others: readonly string[] } {
  const stem = file.replace(/\.ts$/, '');
  const isOwn = (test: string) => [`${stem}.`, `${stem}-`].some((begin) => test.startsWith(begin));
  return { own: tests.filter(isOwn), others: tests.filter((test) => !isOwn(test)) };
}
