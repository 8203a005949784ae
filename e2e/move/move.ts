/** Moves one Capsule of a running Space from one PostgreSQL server to another. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Steps } from '../progress/index.ts';
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { isHopeless } from '../space/rollout.ts';
import { operatorOf } from '../space/servers.ts';
import { type TemporaryObjects, temporaryObjects, withAuthority } from './pods.ts';
import { MoveProblem, printable } from './problem.ts';

export interface Move {
  readonly kube: Kube;
  readonly space: string;
  /** The namespace of its Capsules. */
  readonly namespace: string;
  readonly capsule: string;
  readonly to: string;
  readonly image: string | undefined;
  readonly steps: Steps;
  readonly signal: AbortSignal;
  readonly now: () => Date;
}

export interface Moved {
  readonly capsule: string;
  readonly server: string;
  /** The number of databases that this run copied. */
  readonly databases: number;
  readonly bytes: number;
  /** Assistants for which the operator requests the new URL. */
  readonly assistants: readonly string[];
  /** Servers that did not answer and may have something left: the same command drops it once they do. */
  readonly unanswered: readonly string[];
}

/** What the broker's command `move` answers. */
interface Answer {
  /** The server that the Capsule is on; the broker names it while the Capsule has not moved. */
  readonly from?: string;
  readonly attempt?: string;
  readonly copies?: readonly { readonly app: string; readonly from: string; readonly to: string }[];
  readonly unanswered?: readonly string[];
}

const COPIES = 2;
const COPY = ['/bin/sh', '/usr/share/space/copy.sh'];
const ROTATE = 'platform.space/rotate';

/** The next run continues one that was interrupted at any point. If a copy fails, the move is undone. */
export async function moveCapsule(about: Move): Promise<Moved> {
  const { capsule, to, steps } = about;
  const room = await steps.run('read the Space', async () => temporaryObjects(about, await living(about)));
  let copied = { databases: 0, bytes: 0 };
  try {
    await steps.run('start the pod that copies', () => open(about, room));
    const begun = await steps.run('close its databases', () => told(about, capsule, to));
    let ended = begun;
    if (begun.attempt !== undefined) {
      copied = await copyAll(about, room.pod, begun);
      ended = await steps.run('switch to the new server', () =>
        told(about, capsule, to, '--copied', begun.attempt ?? ''),
      );
    }
    const assistants = await steps.run('give its Assistants their new URLs', () => renew(about));
    return { capsule, server: to, ...copied, assistants, unanswered: ended.unanswered ?? [] };
  } finally {
    await close(about, room);
  }
}

/** Undoes a move that has not switched; the Capsule continues where it was. */
export async function takeBack(
  about: Omit<Move, 'to' | 'image' | 'now'>,
): Promise<Pick<Moved, 'capsule' | 'unanswered'>> {
  const { unanswered = [] } = await about.steps.run('open its databases again', () =>
    told(about, about.capsule, '--back'),
  );
  return { capsule: about.capsule, unanswered };
}

async function living({ kube, space }: Move): Promise<readonly KubeObject[]> {
  const [services, system] = [`${space}-services`, `${space}-system`];
  const found = await Promise.all([
    kube.get('deployment', 'db-broker', services),
    kube.get('configmap', 'db-servers', services),
    kube.get('statefulset', 'postgres', services),
    kube.get('service', 'postgres', services),
    kube.get('networkpolicy', 'db-broker', services),
    kube.get('networkpolicy', 'postgres', services),
    kube.get('deployment', operatorOf(space), system),
  ]);
  return found.filter((one) => one !== undefined);
}

async function open({ kube, signal }: Move, { pod, policies }: TemporaryObjects): Promise<void> {
  const { name, namespace = '' } = pod.metadata;
  await kube.run(['delete', 'pod', name, '-n', namespace, '--wait=true', '--ignore-not-found']);
  await kube.apply(...policies, pod);
  for (;;) {
    const found = await kube.get('pod', name, namespace);
    const phase: string = found?.['status']?.phase ?? '';
    if (phase === 'Running') return;
    if (phase === 'Failed' || phase === 'Succeeded' || (found !== undefined && isHopeless(found)))
      throw new MoveProblem(`pod ${namespace}/${name} does not run. Nothing was changed`);
    await wait(500, undefined, { signal });
  }
}

async function close({ kube }: Move, { pod, policies }: TemporaryObjects): Promise<void> {
  for (const { kind, metadata } of [pod, ...policies])
    await kube.remove(kind, metadata.name, metadata.namespace);
}

/** Runs the broker's administrator command. Its answer contains passwords, and is never shown. */
async function told(
  { kube, space }: Pick<Move, 'kube' | 'space'>,
  ...args: readonly string[]
): Promise<Answer> {
  const exec = [
    'exec',
    '-n',
    `${space}-services`,
    'deploy/db-broker',
    '--',
    'node',
    '/app/admin.mjs',
    'move',
  ];
  const { code, stdout, stderr } = await kube.run([...exec, ...args]);
  if (code !== 0) throw new MoveProblem(reasonIn(stderr) || 'the database broker did not answer');
  return JSON.parse(stdout);
}

async function copyAll(about: Move, pod: KubeObject, { copies = [], from = 'main' }: Answer) {
  const { capsule, steps, to, signal } = about;
  const roles = copies.map(({ from: url }) => new URL(url).username).join(' ');
  try {
    return await steps.run('copy and compare its databases', async (step) => {
      const left = copies.values();
      let bytes = 0;
      let databases = 0;
      const work = async () => {
        for (const copy of left) {
          signal.throwIfAborted();
          bytes += await copied(
            about,
            pod,
            withAuthority(copy.from, from),
            withAuthority(copy.to, to),
            roles,
          );
          databases += 1;
          step.note(`${databases} of ${copies.length}`);
        }
      };
      await Promise.all(Array.from({ length: COPIES }, work));
      return { databases, bytes };
    });
  } catch (error) {
    if (!(error instanceof MoveProblem)) throw error;
    await steps.run('undo the move', () => told(about, capsule, '--back'));
    throw new MoveProblem(
      `${error.message}\nThe move was undone: the Capsule continues on its former server`,
    );
  }
}

async function copied(
  { kube }: Move,
  pod: KubeObject,
  from: string,
  to: string,
  roles: string,
): Promise<number> {
  const { name, namespace = '' } = pod.metadata;
  const exec = ['exec', '-i', '-n', namespace, name, '-c', 'copy', '--'];
  const { code, stdout, stderr } = await kube.run([...exec, ...COPY], `${from}\n${to}\n${roles}\n`);
  if (code !== 0) throw new MoveProblem(`database ${new URL(from).username}: ${reasonIn(stderr)}`);
  return JSON.parse(stdout).bytes;
}

const reasonIn = (stderr: string): string =>
  printable(
    stderr
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('command terminated with exit code'))
      .slice(-12)
      .join('\n'),
  );

/** The operator asks the broker for a URL when this annotation has a new value; pods roll if the URL differs. */
async function renew({ kube, namespace, capsule, to, now }: Move): Promise<readonly string[]> {
  const mark = `${ROTATE}=moved-to-${to}-${now()
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')}`;
  const all = await kube.list('assistant', namespace);
  const names = all.filter(({ spec }) => spec.capsule === capsule).map(({ metadata }) => metadata.name);
  for (const [kind, name] of [['capsule', capsule], ...names.map((one) => ['assistant', one])]) {
    const { code, stderr } = await kube.run([
      ...['annotate', String(kind), String(name), '-n', namespace, '--overwrite', mark],
    ]);
    if (code !== 0 && !stderr.includes('NotFound'))
      throw new MoveProblem(
        `the Capsule was moved, but ${kind} ${name} could not be annotated: ${reasonIn(stderr)}. Run the command again`,
      );
  }
  return names;
}
