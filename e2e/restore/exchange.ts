/**
 * A Space that was set back may believe in credentials that had ended since the moment of its backup, and nobody can tell
 * which. So all are exchanged before anybody is let in: the operator then hands out the new ones by itself.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Step } from '../progress/index.ts';
import type { Kube } from '../space/kube.ts';
import { RestoreProblem } from './problem.ts';

interface Exchange {
  readonly kube: Kube;
  readonly space: string;
  readonly signal: AbortSignal;
}

/** A broker, the audience of its principals, and what their Secrets' names end with. */
const BROKERS = [
  { deployment: 'db-broker', audience: 'dbp', ending: 'database' },
  { deployment: 'objectstore-broker', audience: 'osp', ending: 'objectstore' },
] as const;
const PATIENCE_MS = 600_000;

/** What was found in the registries. */
export interface Exchanged {
  /** Capsules with databases. */
  readonly registered: readonly string[];
  /** Capsules whose own credentials are another state than was answered last: each is to be looked at by its administrator. */
  readonly setBack: readonly string[];
}

export async function exchangeCredentials(about: Exchange, step: Step): Promise<Exchanged> {
  step.note('the passwords of databases');
  await asked(about, 'db-broker', ['rotate', '--all']);
  step.note('the principals of Assistants');
  await asked(about, 'objectstore-broker', ['restore', 'principals']);
  for (const broker of BROKERS) {
    step.note(`the principals of Capsules for ${broker.deployment}`);
    await exchangePrincipals(about, broker);
  }
  step.note('what Capsules entered themselves');
  const setBack = await answerCustody(about);
  const listed = await asked(about, 'db-broker', ['list']);
  const registered = linesOf(listed).flatMap(({ capsule, state }) =>
    state === 'active' ? [String(capsule)] : [],
  );
  return { registered, setBack };
}

/** A new one for each is written where the operator reads it, then told to the broker: a run that was cut short begins anew. */
async function exchangePrincipals(
  about: Exchange,
  { deployment, audience, ending }: (typeof BROKERS)[number],
): Promise<void> {
  const { kube, space } = about;
  const namespace = `${space}-system`;
  const name = new RegExp(`^capsule-(.+)-${ending}$`);
  const lines: string[] = [];
  for (const found of await kube.list('secret', namespace)) {
    const [, capsule] = name.exec(found.metadata.name) ?? [];
    if (capsule === undefined) continue;
    const token = `spc_${audience}_${randomBytes(32).toString('base64url')}`;
    const { type, data, metadata } = found;
    await kube.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        name: metadata.name,
        namespace,
        // The Capsule that will come has another UID, and is to have its data.
        labels: { ...metadata.labels, 'platform.space/retained': 'true' },
        annotations: metadata.annotations,
      },
      type,
      data: { ...data, principal: Buffer.from(token).toString('base64') },
    });
    lines.push(`${capsule} ${token}\n`);
  }
  await asked(about, deployment, ['replace-principals'], lines.join(''));
}

/** Sets of credentials that were changed after the backup are closed, until somebody says that the restored ones are meant. */
async function answerCustody(about: Exchange): Promise<readonly string[]> {
  const states = linesOf(await asked(about, 'objectstore-broker', ['custody']));
  const setBack = states.flatMap(({ capsule, state }) => (state === 'rollback' ? [String(capsule)] : []));
  for (const capsule of setBack) await asked(about, 'objectstore-broker', ['restore', 'accept', capsule]);
  return setBack;
}

const linesOf = (text: string): readonly Readonly<Record<string, unknown>>[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

/** An administrator's command in a broker's container, once there is one that runs. */
async function asked(
  { kube, space, signal }: Exchange,
  deployment: string,
  command: readonly string[],
  input = '',
): Promise<string> {
  const deadline = performance.now() + PATIENCE_MS;
  const exec = ['exec', '-i', '-n', `${space}-services`, `deploy/${deployment}`, '--'];
  for (;;) {
    const { code, stdout, stderr } = await kube.run([...exec, 'node', '/app/admin.mjs', ...command], input);
    if (code === 0) return stdout;
    if (performance.now() > deadline)
      throw new RestoreProblem(`${deployment} does not take ${command.join(' ')}: ${stderr.trim()}`);
    await wait(1_000, undefined, { signal });
  }
}
