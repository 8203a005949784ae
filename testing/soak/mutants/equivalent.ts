/** Mutants that no test can detect, each with the reason. A test checks that each is still a mutant of its file. */
import { CONSOLE } from './equivalent/console.ts';
import { EGRESS } from './equivalent/egress.ts';
import type { Equivalent } from './equivalent/entry.ts';
import { KIT } from './equivalent/kit.ts';
import { MANIFESTS } from './equivalent/manifests.ts';
import { OBJECTSTORE } from './equivalent/objectstore.ts';
import { OPERATOR } from './equivalent/operator.ts';
import type { AutomaticMutant } from './operators.ts';

export const EQUIVALENT: readonly Equivalent[] = [
  ...CONSOLE,
  ...EGRESS,
  ...KIT,
  ...MANIFESTS,
  ...OBJECTSTORE,
  ...OPERATOR,
];

export const isOf = (one: Equivalent, mutant: AutomaticMutant): boolean =>
  one.file === mutant.file && one.code === mutant.code && one.change === mutant.change;

export const isEquivalent = (mutant: AutomaticMutant): boolean => EQUIVALENT.some((one) => isOf(one, mutant));
