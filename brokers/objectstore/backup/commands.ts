import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { ConfigError, type Environment } from '@space/broker-kit';
import { S3Error } from '../upstream/errors.ts';
import { type Config, readConfig } from './config.ts';
import { type CopyReport, copy } from './copy.ts';
import { BackupError, INCOMPLETE, IncompletePointError, UsageError } from './errors.ts';
import { expire } from './expire.ts';
import { listPoints } from './list.ts';
import { type Opened, openRun, openStates, sentenceOf } from './open.ts';
import { check, type RestoreReport, restore } from './restore.ts';
import { type Move, restoreInto } from './restore-into.ts';
import type { Clock } from './retrying.ts';
import { expireStates, getState, putState } from './states.ts';

const USAGE =
  'usage: node /app/backup.mjs copy [--expire] | restore [--at TIME] [--prefix FROM --to TO]… | check [--at TIME] [--bucket] | state [--at TIME] | list | expire';

export interface Given {
  readonly args: readonly string[];
  readonly environment: Environment;
  readonly clock: Clock;
  /** Aborts the run. */
  readonly signal: AbortSignal;
  /** Writes one line. */
  readonly out: (line: string) => void;
  readonly error: (line: string) => void;
}

/** Runs a command; returns the exit code. */
export async function runBackup({ args, environment, clock, signal, out, error }: Given): Promise<number> {
  try {
    const command = parse(args);
    const config = readConfig(environment);
    const tell = (name: string, report: object) => out(JSON.stringify({ command: name, ...report }));
    if (command.name === 'state') {
      const { states, close } = await openStates(config, clock, signal);
      await getState(states, command.at)
        .then((sealed) => out(sealed.toString('base64')))
        .finally(close);
    } else {
      const opened = await openRun(config, clock, signal);
      await act(command, config, opened, { tell, out }).finally(opened.close);
    }
    return 0;
  } catch (failure) {
    const isIncomplete = failure instanceof IncompletePointError;
    const isStopped = signal.aborted && !isIncomplete;
    error(isStopped ? 'it was stopped before its end: run the same command again' : told(failure));
    return isIncomplete ? INCOMPLETE : 1;
  }
}

type Command =
  | { readonly name: 'list' | 'expire' }
  | { readonly name: 'copy'; readonly expire: boolean }
  | { readonly name: 'state'; readonly at: Date | undefined }
  | { readonly name: 'check'; readonly at: Date | undefined; readonly withBucket: boolean }
  | { readonly name: 'restore'; readonly at: Date | undefined; readonly moves: readonly Move[] };

interface Telling extends Pick<Given, 'out'> {
  readonly tell: (name: string, report: object) => void;
}

async function act(
  command: Exclude<Command, { name: 'state' }>,
  config: Config,
  { run, states }: Opened,
  { tell, out }: Telling,
): Promise<void> {
  const expireAll = async (options: { readonly isDaily: boolean }) => {
    const gone = await expireStates(states, config.BACKUP_KEEP_DAYS);
    tell('expire', { ...(await expire(run, config.BACKUP_KEEP_DAYS, options)), states: gone });
  };
  if (command.name === 'copy') {
    const file = config.BACKUP_STATE_FILE;
    const sealed = file === undefined ? undefined : await stateIn(file);
    let state: string | undefined;
    // The state with the keys is stored before the objects that they open, since a restore uses the newest of both.
    const begin = async () => {
      if (sealed !== undefined) state = await putState(states, sealed);
    };
    const copied = await copy(run, { begin, acceptedLoss: config.BACKUP_ACCEPT_LOSS });
    tell('copy', { ...copied, state });
    if (command.expire) await expireAll({ isDaily: true });
    requireWhole(copied);
  } else if (command.name === 'restore') tell('restore', await restoring(command, config, run));
  else if (command.name === 'check')
    tell('check', await check(run, { ...command, makesBucket: config.S3_CREATE_BUCKET }));
  else if (command.name === 'expire') await expireAll({ isDaily: false });
  else {
    const { points, damaged } = await listPoints(run);
    for (const { name, header } of points) out(JSON.stringify({ point: name, ...header }));
    const [first] = damaged;
    if (first !== undefined) throw first.error;
  }
}

/** @throws IncompletePointError if the point was made, and lacks something */
function requireWhole(copied: CopyReport): void {
  const { point, unreadable, unreadable_key, unlisted, unlisted_prefix } = copied;
  const reasons: string[] = [];
  if (unreadable > 0)
    reasons.push(
      `the server of the Space's bucket does not return ${unreadable} of its objects, ${unreadable_key} for one: they are in it as an earlier point has them, or not at all`,
    );
  if (unlisted > 0)
    reasons.push(
      `objects are written under ${unlisted} prefixes, ${unlisted_prefix} for one, faster than they are listed: it lacks some of these (find out who writes there, and whether the clock here is behind that of the bucket's server)`,
    );
  if (reasons.length > 0)
    throw new IncompletePointError(`the point ${point} was made, but ${reasons.join('; ')}`);
}

const restoring = (
  { at, moves }: Extract<Command, { name: 'restore' }>,
  { S3_CREATE_BUCKET: makesBucket }: Config,
  run: Opened['run'],
): Promise<RestoreReport> =>
  moves.length === 0 ? restore(run, { at, makesBucket }) : restoreInto(run, at, moves);

async function stateIn(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new BackupError('BACKUP_STATE_FILE cannot be read: the program that seals it comes first', {
      cause: error,
    });
  }
}

function parse(args: readonly string[]): Command {
  const [name, option, ...more] = args;
  if (name === 'restore' || name === 'state' || name === 'check') {
    const { at, moves, withBucket } = optionsIn(args.slice(1));
    if (name === 'check' && moves.length === 0) return { name, at, withBucket };
    if (name === 'restore' && !withBucket) return { name, at, moves };
    if (name === 'state' && moves.length === 0 && !withBucket) return { name, at };
  } else if (name === 'copy' && (option === undefined || option === '--expire') && more.length === 0)
    return { name, expire: option !== undefined };
  else if ((name === 'list' || name === 'expire') && option === undefined) return { name };
  throw new UsageError(USAGE);
}

function optionsIn(args: readonly string[]) {
  const { values } = parsedOptions(args);
  const { at, prefix, to, bucket: withBucket } = values;
  if (prefix.length !== to.length) throw new UsageError(USAGE);
  const moves = prefix.map((from, index) => ({ from: prefixOf(from), to: prefixOf(to[index]) }));
  const overlap = (all: readonly string[]) =>
    all.some((one, i) => all.some((other, j) => i !== j && other.startsWith(one)));
  if (overlap(moves.map(({ from }) => from)) || overlap(moves.map((move) => move.to)))
    throw new UsageError('--prefix and --to need prefixes of which none begins with another');
  return { at: at === undefined ? undefined : timeOf(at), moves, withBucket };
}

function parsedOptions(args: readonly string[]) {
  const several = { type: 'string', multiple: true, default: [] as string[] } as const;
  try {
    return parseArgs({
      args: [...args],
      options: {
        at: { type: 'string' },
        prefix: several,
        to: several,
        bucket: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(USAGE, { cause: error });
  }
}

/** Accepts only prefixes of Capsules, since nothing else in the bucket belongs to one owner. */
function prefixOf(text: string | undefined): string {
  if (text === undefined || !/^c\/[0-9a-f]{40}\/(?:[^/]+\/)*$/.test(text))
    throw new UsageError('--prefix and --to need prefixes of Capsules, such as c/…/s/ and c/…/a/…/');
  return text;
}

/** Parses a time, which must have a zone, since the container's seldom is the administrator's. */
function timeOf(text: string): Date {
  const time = new Date(text);
  if (
    !/^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/.test(text) ||
    Number.isNaN(time.getTime())
  )
    throw new UsageError('--at needs a time with its zone, such as 2026-11-23T18:00:00Z');
  return time;
}

function told(failure: unknown): string {
  if (failure instanceof BackupError || failure instanceof UsageError || failure instanceof ConfigError)
    return failure.message;
  if (failure instanceof S3Error) return sentenceOf(failure);
  // The messages of other errors may quote data.
  return `it failed unexpectedly (${failure instanceof Error ? failure.name : typeof failure}): report it`;
}
