/** Runs before each file of tests in the kept thread: makes Node load the mutated file, and everything that imports it, again. */
import { inject } from 'vitest';

interface Evaluated {
  readonly id: string;
  readonly importers: Set<string>;
}

interface Modules {
  getModuleById(id: string): Evaluated | undefined;
  getModulesByFile(file: string): Iterable<Evaluated> | undefined;
  invalidateModule(module: Evaluated): void;
}

declare module 'vitest' {
  interface ProvidedContext {
    target: string;
  }
}

const { evaluatedModules } = (globalThis as unknown as { __vitest_worker__: { evaluatedModules: Modules } })
  .__vitest_worker__;
const stale = new Set(evaluatedModules.getModulesByFile(inject('target')));
// The iteration also visits what is added to the set meanwhile.
for (const { importers } of stale)
  for (const id of importers) {
    const importer = evaluatedModules.getModuleById(id);
    if (importer !== undefined) stale.add(importer);
  }
for (const module of stale) evaluatedModules.invalidateModule(module);
