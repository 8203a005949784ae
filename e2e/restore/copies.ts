/** Copies of the server in a backup, as pgBackRest reports them. */
import { outputOf, type Place } from './place.ts';
import { RestoreProblem } from './problem.ts';

export interface Copy {
  readonly label: string;
  /** Seconds since 1970. */
  readonly timestamp: { readonly start: number; readonly stop: number };
  /** The first and the last file of the log that a server needs to become consistent. */
  readonly archive: { readonly start: string; readonly stop: string };
  readonly database: { readonly id: number };
  /** The bytes that the copy itself has in the backup. */
  readonly info: { readonly repository: { readonly delta: number } };
  /** Copies that contain the rest of it. */
  readonly reference: readonly string[] | null;
  readonly 'database-ref'?: readonly { readonly name: string; readonly oid: number }[];
}

interface Stanza {
  readonly status: { readonly code: number };
  readonly repo: readonly { readonly status: { readonly code: number; readonly message: string } }[];
  readonly archive: readonly { readonly id: string; readonly database: { readonly id: number } }[];
  readonly backup: readonly Copy[];
}

export interface Copies {
  /** The oldest comes first. */
  readonly all: readonly Copy[];
  /** The path of a copy's log. */
  archiveOf(copy: Copy): string;
}

const REPOSITORY = ['/bin/sh', '/usr/share/space/repository.sh'];

export const repository = (place: Place, ...args: readonly string[]): Promise<string> =>
  outputOf(place, [...REPOSITORY, ...args]);

const NO_STANZA = 1;
const NO_COPY = 2;

/** Which of these files of the log are incomplete. */
export const brokenOf = async (place: Place, files: readonly string[]): Promise<readonly string[]> =>
  (await outputOf(place, [...REPOSITORY, 'broken'], files.join('\n')))
    .split('\n')
    .filter((line) => line !== '');

/** @throws RestoreProblem if the backup cannot be read, because it is another's or damaged */
export async function copiesIn(place: Place, ...label: readonly string[]): Promise<Copies> {
  const [stanza] = stanzasIn(await repository(place, 'copies', ...label));
  if (stanza === undefined) throw new RestoreProblem(NONE);
  const { code } = stanza.status;
  if (code === NO_STANZA || code === NO_COPY) throw new RestoreProblem(NONE);
  if (code !== 0) throw unreadable(stanza.repo[0]?.status.message ?? '');
  return {
    all: stanza.backup,
    archiveOf: ({ database }) => stanza.archive.find((one) => one.database.id === database.id)?.id ?? '',
  };
}

/** If a file cannot be decrypted, the output quotes it and is no valid JSON. */
function stanzasIn(text: string): readonly Stanza[] {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unreadable('a file of it cannot be decrypted', cause);
  }
}

function unreadable(message: string, cause?: unknown): RestoreProblem {
  const [said = ''] = message.split('\n');
  return new RestoreProblem(
    `the copies of the database cannot be read with the keys of this Space: they are another Space’s or damaged, or their server cannot be reached (${said.replace(/:$/, '')}). ${UNCHANGED}`,
    { cause },
  );
}

/** From `first` on, a restore follows the files of this timeline. */
export interface Stretch {
  readonly timeline: number;
  /** A file's position in the order of the log. */
  readonly first: number;
}

/** How a restore reaches a moment. */
export interface Way {
  /** The label of the copy that it begins with. */
  readonly label: string;
  /** The timeline, as pgBackRest's option takes it. */
  readonly target: string;
  /** The oldest comes first. */
  readonly stretches: readonly Stretch[];
}

/** The format of PostgreSQL's `recovery_target_time`. */
export const asServerTime = (at: string) => at.replace('T', ' ').replace(/Z$/, '+00');

/** @throws RestoreProblem if a restore has left the log between each copy and the moment */
export async function wayTo(place: Place, at: string | undefined): Promise<Way> {
  const said = await repository(place, 'way', ...(at === undefined ? [] : [asServerTime(at)])).catch(
    (cause: unknown) => {
      const reason = cause instanceof RestoreProblem ? cause.message : 'the backup cannot be read';
      throw new RestoreProblem(`${reason}. ${UNCHANGED}`, { cause });
    },
  );
  const [label = '', target = '', ...stretches] = said.trim().split(' ');
  return {
    label,
    target,
    stretches: stretches.map((one) => {
      const [timeline = 1, first = 0] = one.split(':').map(Number);
      return { timeline, first };
    }),
  };
}

export const UNCHANGED = 'Nothing was changed';
const NONE = `the backup has no copy of the database: check backup.s3.bucket and backup.s3.prefix, or the log of container backup in pod postgres-0. ${UNCHANGED}`;

const stopOf = ({ timestamp }: Pick<Copy, 'timestamp'>): number => timestamp.stop * 1_000;

/** The last copy that was finished by then. @throws RestoreProblem if no copy is that old */
export function copyFor<C extends Pick<Copy, 'timestamp'>>(all: readonly C[], at: string | undefined): C {
  const [oldest] = all;
  if (oldest === undefined) throw new RestoreProblem(NONE);
  const copy = all.findLast((one) => at === undefined || stopOf(one) <= Date.parse(at));
  if (copy !== undefined) return copy;
  throw new RestoreProblem(
    `the oldest copy of the database was made at ${new Date(stopOf(oldest)).toISOString()}: give that time or a later one, with --at. ${UNCHANGED}`,
  );
}

/** @throws RestoreProblem for a moment in the future, which every backup would seem to reach */
export function refuseFuture(at: string | undefined, now: number): void {
  if (at !== undefined && Date.parse(at) > now)
    throw new RestoreProblem(`--at ${at} is in the future. ${UNCHANGED}`);
}
