import type { SoakOptions, SoakReport } from '../soak.ts';
import { admission } from './admission.ts';
import { grants } from './grants.ts';
import { countOf, type Part, rowsOf, type Tried } from './part.ts';
import { rbac } from './rbac.ts';

/** Protections that are no NetworkPolicies; they are tried with servers of their own, without a cluster. */
const PARTS: readonly Part[] = [rbac, admission, grants];

/** The parts among the words, which are tried one after the other. Other words select protections by name. */
export const partsIn = (words: readonly string[]): readonly Part[] =>
  PARTS.filter(({ name }) => words.includes(name));

export async function runParts(
  parts: readonly Part[],
  { quick, only = [] }: SoakOptions,
): Promise<SoakReport> {
  const names = new Set(PARTS.map(({ name }) => name));
  const narrowed = only.filter((word) => !names.has(word));
  const rows: SoakReport['rows'][number][] = [];
  const figures: Record<string, number> = {};
  const all: Tried[] = [];
  for (const part of parts) {
    const started = performance.now();
    const tried = await part.tryAll({ quick, only: narrowed });
    const seconds = Math.round((performance.now() - started) / 1_000);
    all.push(...tried);
    rows.push(...rowsOf(part.name, tried));
    for (const [name, figure] of Object.entries({ ...countOf(tried), seconds }))
      figures[`${part.name}_${name}`] = figure;
  }
  const { survived, mutants } = countOf(all);
  return {
    title:
      'Roles, admission policies and grants of a Space, each changed alone, with the check that shows the change',
    rows,
    figures: { ...figures, ...countOf(all) },
    passed: survived === 0 && mutants > 0,
  };
}
