/** Makes pods try targets, by a command in a container with the program that its image has for it. */
import type { Kube } from '../space/kube.ts';
import type { Picture } from './arrows.ts';
import type { SourcePod } from './discover.ts';
import { resultsIn, type TargetResult, TRY_TARGETS } from './look.ts';
import { expectedOf, isOwn, type Outcome, type Source, type Target, targetKey } from './matrix.ts';

/** The time for a target that should be closed; one that should be open gets longer. */
const LEAST_SECONDS = 3;
const MOST_SECONDS = 20;
/** The attester's maximum of targets. */
const ATTESTER_TARGETS = 24;

export interface Answer {
  readonly seen: ReadonlyMap<string, Outcome>;
  /** Why the pod could not be asked. */
  readonly note?: string;
}

/** The program's arguments: targets that should be open are waited for. */
export const targetArguments = (picture: Picture, source: Source, targets: readonly Target[]): string[] =>
  targets.flatMap((target) => {
    const expected = expectedOf(picture, source, target);
    if (expected === undefined && !isOwn(source, target)) return [];
    return [`${expected === 'open' ? '+' : ''}${targetKey(target)}`];
  });

export async function ask(
  kube: Kube,
  picture: Picture,
  source: SourcePod,
  targets: readonly Target[],
): Promise<Answer> {
  const { metadata, spec } = source.pod;
  const container = spec.containers[0].name;
  const run = (argv: readonly string[]) =>
    kube.run(['exec', '-n', metadata.namespace ?? '', metadata.name, '-c', container, '--', ...argv]);
  if (source.speaks !== undefined) return askAttester(run, picture, source, targets);
  const asked = targetArguments(picture, source, targets);
  const seconds = [`${LEAST_SECONDS}`, `${MOST_SECONDS}`];
  const { stdout, stderr } = await run([
    'env',
    '-u',
    'LISTEN',
    'perl',
    '-e',
    TRY_TARGETS,
    ...seconds,
    ...asked,
  ]);
  const found = resultsIn(stdout);
  return found
    ? { seen: outcomesOf(found) }
    : { seen: new Map(), note: `${source.name}: ${firstLine(stderr) || 'its program printed no result'}` };
}

export const outcomesOf = (found: ReadonlyMap<string, TargetResult>): ReadonlyMap<string, Outcome> =>
  new Map([...found].map(([target, { seen }]) => [target, seen]));

type Run = (argv: readonly string[]) => ReturnType<Kube['run']>;

/** The canary runs the attester's image, whose one program cannot ping and takes longer. */
async function askAttester(
  run: Run,
  picture: Picture,
  source: SourcePod,
  targets: readonly Target[],
): Promise<Answer> {
  const seen = new Map<string, Outcome>();
  const asked = targets.filter(
    (target) => expectedOf(picture, source, target) !== undefined || isOwn(source, target),
  );
  const chunks = Array.from({ length: Math.ceil(asked.length / ATTESTER_TARGETS) }, (_, i) =>
    asked.slice(i * ATTESTER_TARGETS, (i + 1) * ATTESTER_TARGETS),
  );
  let note = '';
  await Promise.all(
    chunks.map(async (chunk) => {
      const words = chunk.map(
        ({ address, port, protocol }, i) => `-t${i}=${address}:${port}${protocol === 'udp' ? '/udp' : ''}`,
      );
      const { stderr } = await run(['/attest', 'prove', ...words]);
      // It reports what it reached. If it reached nothing, it says that the policies are unproven, which has another
      // exit code.
      const told = /^reached: (.*)$/m.exec(stderr)?.[1];
      if (told === undefined && !/exit code 4/.test(stderr))
        note = `${source.name}: ${firstLine(stderr) || 'its program printed no result'}`;
      else
        for (const [i, target] of chunk.entries())
          seen.set(targetKey(target), told?.includes(`t${i} (`) ? 'connected' : 'silence');
    }),
  );
  return { seen, ...(note === '' ? {} : { note }) };
}

const firstLine = (text: string) => text.trim().split('\n')[0]?.slice(0, 200) ?? '';
