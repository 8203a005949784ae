import { startingPrograms } from '../../../scripts/imports/programs.ts';
import { type Exported, exportedBy, importsOf, sourcesOf } from '../../../scripts/imports/read.ts';

/** Further tests rarely find more, and each costs time for every surviving mutant. */
const MOST = 6;
/** These start only openssl, which is quick; tests that start servers are too slow to run for each mutant. */
const QUICK_TO_START = ['testing/certificates.ts', 'testing/ticket-server.ts'];
/** The number of imports by which a test may be further away than the nearest. */
const FURTHER = 1;

/** Finds the unit tests that import a file, sorted by the number of imports between them. */
export function nearestTests(root: string): (file: string) => readonly string[] {
  const sources = sourcesOf(root);
  const exported: Exported = exportedBy(root);
  const quick = QUICK_TO_START.map((file) => [file, ''] as const);
  const starting = startingPrograms(new Map([...sources, ...quick]), exported);
  const importers = new Map<string, Set<string>>();
  for (const [file, text] of sources)
    for (const { target, isType } of importsOf(file, text, exported))
      if (!isType) importers.set(target, (importers.get(target) ?? new Set()).add(file));
  return (file) => {
    const steps = new Map([[file, 0]]);
    // The iteration also visits what is added to the map meanwhile, so nearer ones come first.
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

/** Splits a file's tests into its own, such as `x.test.ts` and `x-more.test.ts` of `x.ts`, and others. */
export function ownFirst(
  file: string,
  tests: readonly string[],
): { readonly own: readonly string[]; readonly others: readonly string[] } {
  const stem = file.replace(/\.ts$/, '');
  const isOwn = (test: string) => [`${stem}.`, `${stem}-`].some((begin) => test.startsWith(begin));
  return { own: tests.filter(isOwn), others: tests.filter((test) => !isOwn(test)) };
}
