import { type Exported, exportedBy, importsOf, sourcesOf } from './read.ts';

const STARTS = /^import .* from 'node:child_process';$/m;

/** All files that start programs, themselves or by what they import. */
export function startingPrograms(sources: ReadonlyMap<string, string>, exported: Exported): Set<string> {
  const importers = new Map<string, string[]>();
  for (const [file, text] of sources)
    for (const { target, isType } of importsOf(file, text, exported))
      if (!isType) importers.set(target, [...(importers.get(target) ?? []), file]);
  const found = new Set([...sources].filter(([, text]) => STARTS.test(text)).map(([file]) => file));
  // A set gives out also what is added to it meanwhile.
  for (const file of found) for (const importer of importers.get(file) ?? []) found.add(importer);
  return found;
}

/** The test files that start programs, and those that do not. */
export function testFiles(root: string): { readonly start: string[]; readonly startNone: string[] } {
  const sources = sourcesOf(root);
  const starting = startingPrograms(sources, exportedBy(root));
  const tests = [...sources.keys()].filter((file) => file.endsWith('.test.ts'));
  return {
    start: tests.filter((file) => starting.has(file)),
    startNone: tests.filter((file) => !starting.has(file)),
  };
}
