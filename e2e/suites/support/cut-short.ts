/** Kills `npm run restore` in the middle of one of its steps. */
import type { ChildProcess, ExecFileException } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';

/** The titles of the command's steps. */
const STEPS = [
  'decrypt the state',
  'check the copies',
  'create the namespaces',
  'restore the keys',
  'restore the database',
  'restore the objects',
  'install the release',
  'replace every credential',
  'wait for the pods of the Space',
  'apply Capsules and Assistants',
] as const;
/** This is longer than some steps take on a quiet machine, so that a kill may happen in the next step. */
const INTO_MS = 4_000;
/** After these the command might be done, and there would be nothing to kill. */
const LAST: ReadonlySet<string> = new Set(STEPS.slice(-2));

type Random = () => number;

/** One random step, since each takes as long as a restore up to it; with `SPACE_EVERY_CUT=1` all, in their order. */
export const stepsToKill = (random: Random): readonly string[] =>
  process.env['SPACE_EVERY_CUT'] === '1' ? STEPS : [STEPS[Math.floor(random() * STEPS.length)] ?? STEPS[0]];

type Ended = (error: ExecFileException | null, out: string, err: string) => void;

/** @throws if the command ends before it begins that step: then nothing was killed in it */
export async function killedIn(
  step: string,
  random: Random,
  start: (ended: Ended) => ChildProcess,
): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<{
    error: ExecFileException | null;
    err: string;
  }>();
  const child = start((error, _out, err) => resolve({ error, err }));
  const { promise: begun, resolve: begin } = Promise.withResolvers<'begun'>();
  let said = '';
  child.stderr?.on('data', (text: string) => {
    said += text;
    if (said.includes(`${step} …`)) begin('begun');
  });
  const first = await Promise.race([begun, over]);
  if (first !== 'begun') throw new Error(`it ended before "${step}": ${first.err}`, { cause: first.error });
  if (!LAST.has(step)) await wait(random() * INTO_MS);
  child.kill('SIGKILL');
  await over;
}
