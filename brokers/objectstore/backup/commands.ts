import { ConfigError, type Environment } from '@space/broker-kit';
import { S3Error } from '../upstream/errors.ts';
import { readConfig } from './config.ts';
import { copy } from './copy.ts';
import { BackupError, UsageError } from './errors.ts';
import { expire } from './expire.ts';
import { listPoints } from './list.ts';
import { openRun, sentenceOf } from './open.ts';
import { restore } from './restore.ts';
import type { Clock } from './retrying.ts';

const USAGE = 'usage: node /app/backup.mjs copy | restore [--at TIME] | list | expire';

export interface Given {
  readonly args: readonly string[];
  readonly environment: Environment;
  readonly clock: Clock;
  /** Ends the run where it is. */
  readonly signal: AbortSignal;
  /** Takes a line each. */
  readonly out: (line: string) => void;
  readonly error: (line: string) => void;
}

/** Does what is asked; answers the exit code. */
export async function runBackup({ args, environment, clock, signal, out, error }: Given): Promise<number> {
  try {
    const command = parse(args);
    const config = readConfig(environment);
    const { run, close } = await openRun(config, clock, signal);
    const tell = (report: object) => out(JSON.stringify({ command: command.name, ...report }));
    try {
      if (command.name === 'copy') tell(await copy(run));
      else if (command.name === 'restore')
        tell(await restore(run, { at: command.at, makesBucket: config.S3_CREATE_BUCKET }));
      else if (command.name === 'expire') tell(await expire(run, config.BACKUP_KEEP_DAYS));
      else {
        const { points, damaged } = await listPoints(run);
        for (const { name, header } of points) out(JSON.stringify({ point: name, ...header }));
        const [first] = damaged;
        if (first !== undefined) throw first.error;
      }
    } finally {
      await close();
    }
    return 0;
  } catch (failure) {
    error(signal.aborted ? 'it was stopped before its end: give the same command again' : told(failure));
    return 1;
  }
}

type Command =
  | { readonly name: 'copy' | 'list' | 'expire' }
  | { readonly name: 'restore'; readonly at: Date | undefined };

function parse(args: readonly string[]): Command {
  const [name, option, time, ...more] = args;
  if (name === 'restore') {
    if (option === undefined) return { name, at: undefined };
    if (option === '--at' && time !== undefined && more.length === 0) return { name, at: timeOf(time) };
  } else if ((name === 'copy' || name === 'list' || name === 'expire') && option === undefined)
    return { name };
  throw new UsageError(USAGE);
}

/** With its zone: an administrator's and the container's are seldom the same. */
function timeOf(text: string): Date {
  const time = new Date(text);
  if (
    !/^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/.test(text) ||
    Number.isNaN(time.getTime())
  )
    throw new UsageError('--at wants a time with its zone, as 2026-11-23T18:00:00Z');
  return time;
}

function told(failure: unknown): string {
  if (failure instanceof BackupError || failure instanceof UsageError || failure instanceof ConfigError)
    return failure.message;
  if (failure instanceof S3Error) return sentenceOf(failure);
  // Messages of others may quote data.
  return `it failed in a way that nobody foresaw (${failure instanceof Error ? failure.name : typeof failure}): report it`;
}
