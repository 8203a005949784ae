import { automaticOnes, tryAutomatic } from './mutants/automatic.ts';
import { BY_HAND } from './mutants/by-hand/list.ts';
import { tryByHand } from './mutants/by-hand.ts';
import { changedSinceMain } from './mutants/changed.ts';
import { FILES } from './mutants/files.ts';
import { componentOf, scoreOf, type Tried } from './mutants/tried.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

const GOAL = 0.95;
const TITLE = 'Files that decide about security, each changed in one place at a time';
/** The most mutants that `npm test` has time for; if there are more, a sample of each file is tried. */
const QUICK_MOST = 100;

const percent = (share: number) => `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;

/** Changes each place at which a file decides about security: a test must fail then. */
export async function run({ quick, only, list = false }: SoakOptions): Promise<SoakReport> {
  const isWanted = (file: string) => only?.some((part) => file.includes(part)) ?? true;
  const changed = quick ? await changedSinceMain(FILES) : () => true;
  if (changed === undefined)
    return report([], ['Skipped: this clone has no branch main, so the changed lines are unknown.']);
  const all = automaticOnes(isWanted, changed);
  const each = quick ? Math.max(1, Math.ceil(all.length / QUICK_MOST)) : 1;
  const automatic = all.filter((_, i) => i % each === 0);
  // Each of these needs a server, which takes too long for the quick form.
  const byHand = BY_HAND.filter(({ file }) => !quick && isWanted(file));
  if (list) {
    const lines = automatic.map(({ file, line, change }) => `${file}:${line}  ${change}`);
    return report([], [...lines, ...byHand.map(({ file, decision }) => `${file}  ${decision}`)]);
  }
  const tried: Tried[] = [];
  const say = (one: Tried) => {
    tried.push(one);
    if (one.verdict !== 'equivalent') console.error(`${one.verdict}: ${one.where}  ${one.change}`);
  };
  await tryAutomatic(automatic, say);
  await tryByHand(byHand, say);
  const lived = tried.filter(({ verdict }) => verdict === 'survived' || verdict === 'not tried');
  return report(
    tried,
    lived.map(({ verdict, where, change }) => `${verdict}: ${where}  ${change}`),
  );
}

function report(tried: readonly Tried[], notes: readonly string[]): SoakReport {
  const score = scoreOf(tried);
  const rows = [
    ...Map.groupBy(tried, ({ file }) => file),
    ...[...Map.groupBy(tried, ({ file }) => componentOf(file))].map(
      ([room, all]) => [`all files of ${room}`, all] as const,
    ),
  ].map(([what, all]) => ({ what, ...counts(all), score: percent(scoreOf(all)) }));
  return {
    ...{ passed: score >= GOAL, title: TITLE, rows, notes },
    figures: { mutants: tried.length, ...counts(tried), score: percent(score), goal: percent(GOAL) },
  };
}

function counts(tried: readonly Tried[]) {
  const of = (wanted: Tried['verdict']) => tried.filter(({ verdict }) => verdict === wanted).length;
  const names = ['killed', 'timed out', 'survived', 'equivalent', 'not tried'] as const;
  return Object.fromEntries(names.map((name) => [name, of(name)]));
}
