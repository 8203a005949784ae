/** Whether the audit says what a transaction did, and a transaction did what the audit says. */
import { decideFinalize } from '../../../kit/principals/decide.ts';
import { decideCreate, decideDrop } from '../../core/decide.ts';
import { type Audit, type Committed, databaseKey, type Registry } from './registry.ts';

/** What an entry stands for: one way of one row, or a decision that changes none. */
export function wrongAudits(registry: Registry, done: Committed): string | undefined {
  for (const entry of done.audits) {
    const wrong = wrongEntry(registry, done, entry);
    if (wrong !== undefined) return `audit of ${entry.operation}, "${entry.outcome}": ${wrong}`;
  }
  const ways = waysOf(done).filter((way) => !done.audits.some((entry) => tellsOf(entry, way)));
  return ways.length === 0 ? undefined : `no audit tells of ${ways.join(', ')}`;
}

/** Rows that came into another state, as words. */
function waysOf(done: Committed): string[] {
  const way = (key: string, before: { state: string } | undefined, after: { state: string } | undefined) =>
    after === undefined || before?.state === after.state ? [] : [`${key} ${after.state}`];
  return [
    ...done.capsules.flatMap(({ key, before, after }) => way(key, before, after)),
    ...done.databases.flatMap(({ key, before, after }) => way(key, before, after)),
  ];
}

const STATES: Readonly<Record<string, string>> = {
  created: 'ready',
  adopted: 'ready',
  dropped: 'dropped',
  'dropped, role left': 'dropped',
  retired: 'retired',
  finalize: 'finalized',
};

/** Does an entry tell of a row's coming into a state? The drop of a Capsule tells of all its databases. */
function tellsOf({ operation, capsule, app, outcome }: Audit, way: string): boolean {
  const ofCapsule = operation === 'capsule.drop' || operation === 'administrator.drop';
  if (ofCapsule && outcome === 'cut')
    return way === `${capsule} dropping` || (way.startsWith(`${capsule}/`) && way.endsWith(' dropping'));
  if (outcome === 'cut') return way === `${databaseKey(capsule, app)} dropping`;
  if (operation === 'capsule.provision' && way === `${capsule} active`) return true;
  const state = STATES[outcome];
  return way === `${databaseKey(capsule, app)} ${state}` || way === `${capsule} ${state}`;
}

function wrongEntry(registry: Registry, done: Committed, entry: Audit): string | undefined {
  const { operation, capsule, app, outcome } = entry;
  const row = registry.databases.get(databaseKey(capsule, app));
  const known = registry.capsules.get(capsule);
  if (outcome in STATES && operation !== 'administrator.drop-unknown')
    return waysOf(done).some((way) => tellsOf(entry, way)) ? undefined : 'and nothing became so';
  const decided = (decision: string, expected: string) =>
    decision === expected ? undefined : `and the decision is "${decision}"`;
  if (operation === 'capsule.drop' || operation === 'administrator.drop')
    return decided(known?.state === 'active' ? 'cut' : known?.state === 'dropping' ? 'resume' : '', outcome);
  if (operation === 'capsule.app.drop') return decided(decideDrop(row, known?.incarnation ?? 0), outcome);
  if (operation === 'capsule.finalize')
    return decided(decideFinalize(known && { ...known, principal: null }), outcome);
  if (operation === 'capsule.provision' || operation === 'capsule.app.create') {
    const kind = { existing: 'existing', rotated: 'rotate' }[outcome.split(',')[0] ?? ''];
    return decided(decideCreate(row).kind, kind ?? outcome);
  }
  return undefined;
}
