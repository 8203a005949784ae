/**
 * Checks whether the databases of all Capsules are where the restored registry says, before any credential works. The
 * backup contains those of the embedded server; the owner of every other server has to bring it to the moment.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Step } from '../progress/index.ts';
import { type BrokerContext, linesOf, PATIENCE_MS, runAdmin, runAdminUntilAccepted } from './broker.ts';
import { RestoreProblem } from './problem.ts';

/** The answer of the broker's command `whereabouts`. */
export interface Whereabouts {
  readonly capsule: string;
  readonly noted: string | null;
  readonly movingTo: string | null;
  readonly on: readonly string[];
  readonly missing: readonly string[];
}

interface ServerLine {
  readonly name: string;
  readonly state: string;
  readonly why?: string;
  readonly leaving?: readonly { readonly capsule: string; readonly to: string }[];
}

export interface ComparisonContext extends BrokerContext {
  /** Capsules of the state that had been provisioned. */
  readonly capsules: readonly string[];
  /** Whether the registry comes from the backup; otherwise it is on an external server. */
  readonly isFilled: boolean;
  /** Capsules whose databases the person who restores has given up. */
  readonly acceptedLost: readonly string[];
}

export interface Compared {
  /** Capsules whose databases come from an external server. */
  readonly beside: readonly { readonly capsule: string; readonly server: string }[];
  readonly lost: readonly string[];
  /** The result of moves that were under way at that moment. */
  readonly moves: readonly string[];
}

export async function compareServers(about: ComparisonContext, step: Step): Promise<Compared> {
  await requireServers(about, step);
  const moves = await endMoves(about, step);
  await refuseLeaving(about);
  step.note('asking each server which Capsules it has');
  return { ...requireMatch(await lookUp(about), about), moves };
}

const serversOf = async (about: BrokerContext) =>
  linesOf<ServerLine>(await runAdminUntilAccepted(about, 'db-broker', ['servers']));
const lookUp = async (about: BrokerContext) =>
  linesOf<Whereabouts>(await runAdminUntilAccepted(about, 'db-broker', ['whereabouts']));

/** If one of them is missing, its databases are unknown. */
async function requireServers(about: BrokerContext, step: Step): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const away = (await serversOf(about)).filter(({ state }) => state !== 'ready');
    const [first] = away;
    if (first === undefined) return;
    const why = away.map(({ name, why = 'it is not ready' }) => `${name}: ${why}`).join('; ');
    step.note(why);
    if (performance.now() > deadline)
      throw new RestoreProblem(
        `the broker cannot use some PostgreSQL servers of this Space (${why}), and no backup of the Space contains the databases on them. Restore these servers from their own backups, or replace ${first.name} by an empty server that is prepared as in docs/postgres.md, and run the command again`,
      );
    await wait(1_000, undefined, { signal: about.signal });
  }
}

/** No copy is running any more. A move whose target already has the Capsule is completed, any other is undone. */
async function endMoves(about: BrokerContext, step: Step): Promise<readonly string[]> {
  const ended: string[] = [];
  for (const { capsule, noted, movingTo } of await lookUp(about)) {
    if (movingTo === null) continue;
    step.note(`the move of ${capsule}`);
    const back = await runAdmin(about, 'db-broker', ['move', capsule, '--back']);
    const landed = back.code !== 0 && / is on \S+ already/.test(back.stderr);
    const last = landed ? await runAdmin(about, 'db-broker', ['move', capsule, movingTo]) : back;
    if (last.code !== 0)
      throw new RestoreProblem(
        `Capsule ${capsule} was being moved from ${noted ?? 'main'} to ${movingTo} at that moment, and the move could neither be completed nor undone: ${last.stderr.trim()}. Repair the cause, then run the command again`,
      );
    ended.push(
      `the move of Capsule ${capsule} to ${movingTo}, which was under way: it was ${landed ? 'completed' : 'undone'}`,
    );
  }
  return ended;
}

async function refuseLeaving(about: BrokerContext): Promise<void> {
  for (const { name, leaving = [] } of await serversOf(about))
    for (const { capsule, to } of leaving)
      throw new RestoreProblem(
        `server ${name} reports that Capsule ${capsule} is being moved to ${to}, but the registry of main has no such move, so the two servers are at different moments. ${TO_ONE_MOMENT}`,
      );
}

const TO_ONE_MOMENT =
  'Restore each server beside main from its own backup to the moment of this restore, and run the command again, with the same --at';

/** @throws RestoreProblem that names every Capsule whose databases are not where the registry says */
export function requireMatch(
  found: readonly Whereabouts[],
  { capsules, isFilled, acceptedLost }: Pick<ComparisonContext, 'capsules' | 'isFilled' | 'acceptedLost'>,
): Pick<Compared, 'beside' | 'lost'> {
  const known = new Set(found.map(({ capsule }) => capsule));
  // A registry from the backup is that of the moment: a Capsule that it does not know was not registered then.
  const unknown = isFilled ? [] : capsules.filter((capsule) => !known.has(capsule));
  const apart = found.flatMap((one) => isApart(one) ?? []);
  const lacking = new Map<string, string>(
    unknown.map((capsule) => [capsule, `Capsule ${capsule}: the registry of main has no such Capsule`]),
  );
  for (const one of found) {
    const lack = lackOf(one, capsules.includes(one.capsule));
    if (lack !== undefined) lacking.set(one.capsule, lack);
  }
  const missing = [...lacking].filter(([capsule]) => !acceptedLost.includes(capsule));
  if (apart.length > 0 || missing.length > 0) {
    const options = missing.map(([capsule]) => `--accept-lost ${capsule}`).join(' ');
    const without = apart.length > 0 ? '' : `, or continue without their databases, with ${options}`;
    const sentences = [...apart, ...missing.map(([, sentence]) => sentence)].join('\n  ');
    throw new RestoreProblem(
      `databases are not on the servers that the registry names:\n  ${sentences}\n${TO_ONE_MOMENT}${without}`,
    );
  }
  const beside = found.flatMap(({ capsule, on: [server] }) =>
    server === undefined || (server === 'main' && isFilled) ? [] : [{ capsule, server }],
  );
  return { beside, lost: [...lacking.keys()] };
}

function isApart({ capsule, noted, on }: Whereabouts): string | undefined {
  const [server] = on;
  const said = noted ?? 'main';
  if (on.length > 1)
    return `Capsule ${capsule}: servers ${on.join(' and ')} have it, but the registry of main says ${said}`;
  return server === undefined || server === said
    ? undefined
    : `Capsule ${capsule}: server ${server} has it, but the registry of main says ${said}`;
}

function lackOf(
  { capsule, noted, on: [server], missing }: Whereabouts,
  isWanted: boolean,
): string | undefined {
  if (server === undefined)
    return isWanted ? `Capsule ${capsule}: server ${noted ?? 'main'} has no such Capsule` : undefined;
  return missing.length === 0
    ? undefined
    : `Capsule ${capsule}: server ${server} lacks its databases ${missing.join(', ')}`;
}
