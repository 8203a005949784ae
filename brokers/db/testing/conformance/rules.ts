/**
 * Whether a transaction is one that the model of the broker permits: the decisions are those of the broker itself
 * (core/decide.ts, kit/principals/decide.ts), which `npm run soak -- model-deletion` goes through exhaustively.
 */
import { decideFinalize, decideProvision, mayAct } from '../../../kit/principals/decide.ts';
import { decideCreate, decideDrop } from '../../core/decide.ts';
import type { Capsule, Change, Committed, Database, Registry } from './registry.ts';

/** Rules see the registry before the transaction, and what it did. */
export function wrongRows(registry: Registry, done: Committed): string | undefined {
  for (const change of done.capsules) {
    const wrong = stale(registry.capsules.get(change.key), change) ?? wrongCapsule(registry, done, change);
    if (wrong !== undefined) return `Capsule ${change.key}: ${wrong}`;
  }
  for (const change of done.databases) {
    const wrong = stale(registry.databases.get(change.key), change) ?? wrongDatabase(registry, done, change);
    if (wrong !== undefined) return `database ${change.key}: ${wrong}`;
  }
  return undefined;
}

function stale<Row>(known: Row | undefined, { before }: Change<Row>): string | undefined {
  return JSON.stringify(known) === JSON.stringify(before)
    ? undefined
    : 'is not as the transactions before have left it';
}

function wrongCapsule(
  registry: Registry,
  done: Committed,
  { key, before, after }: Change<Capsule>,
): string | undefined {
  if (after === undefined) return before?.state === 'finalized' ? undefined : 'is forgotten before its end';
  const way = `${before?.state ?? 'nothing'} to ${after.state}`;
  const kept = before?.incarnation === after.incarnation;
  const retires = before?.principal != null && done.retired.includes(before.principal);
  if (after.state === 'active' && before?.state === 'active')
    return kept && retires && isNew(registry, done, key, after) ? undefined : 'has another principal';
  if (after.state === 'active') {
    const decision = decideProvision(before && row(before), false);
    const incarnation = (before?.incarnation ?? 0) + 1;
    if (!decision.endsWith('incarnation') || decision === 'same incarnation') return way;
    if (after.incarnation !== incarnation) return `begins incarnation ${after.incarnation}`;
    return isNew(registry, done, key, after) ? undefined : 'takes a principal that is known';
  }
  if (!kept) return `changes its incarnation from ${way}`;
  if (way === 'active to dropping') {
    if (before?.principal !== after.principal) return 'loses its principal before it is dropped';
    return living(registry, done, key).every(({ state }) => state === 'dropping')
      ? undefined
      : 'is dropped, and a database of it is not';
  }
  if (way === 'dropping to dropping')
    return retires && isNew(registry, done, key, after) ? undefined : 'has another principal';
  if (way === 'dropping to retired') {
    if (!retires || after.principal !== null) return 'is retired without its principal';
    return living(registry, done, key).length === 0 ? undefined : 'is retired before its databases are gone';
  }
  const released = decideFinalize(before && row(before)) === 'finalize' && after.state === 'finalized';
  return released ? undefined : `goes from ${way}`;
}

const row = ({ state, incarnation }: Capsule) => ({ state, incarnation, principal: null });

function isNew(registry: Registry, done: Committed, key: string, { principal }: Capsule): boolean {
  if (principal === null || registry.retired.has(principal) || done.retired.includes(principal)) return false;
  return [...registry.capsules].every(([other, capsule]) => other === key || capsule.principal !== principal);
}

/** Databases of a Capsule that are not dropped when the transaction ends. */
function living(registry: Registry, done: Committed, capsule: string): Database[] {
  const changed = new Map(done.databases.map(({ key, after }) => [key, after]));
  const kept = [...registry.databases].flatMap(([key, database]) => (changed.has(key) ? [] : [database]));
  return [...kept, ...changed.values()].filter(
    (one) => one !== undefined && one.capsule === capsule && one.state !== 'dropped',
  ) as Database[];
}

function wrongDatabase(
  registry: Registry,
  done: Committed,
  { before, after }: Change<Database>,
): string | undefined {
  if (after === undefined) return before?.state === 'dropped' ? undefined : 'leaves no tombstone';
  const capsule =
    done.capsules.find(({ key }) => key === after.capsule)?.after ?? registry.capsules.get(after.capsule);
  if (capsule === undefined) return 'is of no Capsule';
  const decision = decideCreate(before);
  if (after.state === 'ready' && decision.kind === 'create') {
    if (!mayAct(capsule.state, 'apps')) return `is made in a Capsule that is ${capsule.state}`;
    if (after.generation !== decision.generation) return `is made with generation ${after.generation}`;
    if (after.incarnation !== capsule.incarnation) return `is made for incarnation ${after.incarnation}`;
    return registry.names.has(after.name) ? 'takes a name that there was' : undefined;
  }
  const same = before?.name === after.name && before.incarnation === after.incarnation;
  const way = `${before?.state ?? 'nothing'} to ${after.state}`;
  if (!same) return `becomes another from ${way}`;
  if (way === 'ready to ready') {
    if (before.generation === after.generation)
      return before.epoch === after.epoch && before.keyId === after.keyId
        ? undefined
        : 'keeps its generation';
    const rotates = decision.kind === 'rotate' && after.generation === decision.generation;
    if (!rotates || !mayAct(capsule.state, 'apps')) return `has generation ${after.generation} from ${way}`;
    return before.epoch === after.epoch ? 'has the epoch of before' : undefined;
  }
  if (before.generation !== after.generation) return `changes its generation from ${way}`;
  if (way === 'ready to dropping')
    return decideDrop(before, capsule.incarnation) === 'cut' ? undefined : 'is cut for another incarnation';
  // Its own drop was under way, and that of its Capsule takes it over.
  if (way === 'dropping to dropping') {
    const taken = done.capsules.some(
      (one) => one.key === after.capsule && one.before?.state === 'active' && one.after?.state === 'dropping',
    );
    return taken ? undefined : `goes from ${way}`;
  }
  return way === 'dropping to dropped' || way === 'dropped to dropped' ? undefined : `goes from ${way}`;
}
