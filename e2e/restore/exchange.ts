/**
 * A Space that was set back may accept credentials that had ended since the moment of its backup, and nobody can tell
 * which. So all are exchanged before any of them works again; the operator then distributes the new ones by itself.
 */
import { randomBytes } from 'node:crypto';
import type { Step } from '../progress/index.ts';
import { type BrokerContext, linesOf, runAdminUntilAccepted } from './broker.ts';

interface Exchange extends BrokerContext {
  /** Capsules whose own credentials stay in use as they were at that moment. */
  readonly accepted: readonly string[];
}

/** A broker, the audience of its principals, and the suffix of their Secrets' names. */
const BROKERS = [
  { deployment: 'db-broker', audience: 'dbp', ending: 'database' },
  { deployment: 'objectstore-broker', audience: 'osp', ending: 'objectstore' },
] as const;

/** What was found in the registries. */
export interface Exchanged {
  /** Capsules, with ids of Assistants that have a database; the Capsule's own has none. */
  readonly registered: readonly { readonly capsule: string; readonly apps: readonly string[] }[];
  /** Capsules that have a principal but that a broker did not know at that moment. */
  readonly unknown: readonly { readonly capsule: string; readonly broker: string }[];
  /**
   * Capsules whose own credentials are older than the last confirmed change. They stay closed until a person decides.
   */
  readonly setBack: readonly string[];
  /** The accepted ones, as the person who restores decided. */
  readonly accepted: readonly string[];
}

export async function exchangeCredentials(about: Exchange, step: Step): Promise<Exchanged> {
  step.note('the passwords of databases');
  await runAdminUntilAccepted(about, 'db-broker', ['rotate', '--all']);
  step.note('the principals of Assistants');
  await runAdminUntilAccepted(about, 'objectstore-broker', ['restore', 'principals']);
  const unknown: { capsule: string; broker: string }[] = [];
  for (const broker of BROKERS) {
    step.note(`the principals of Capsules for ${broker.deployment}`);
    for (const capsule of await exchangePrincipals(about, broker))
      unknown.push({ capsule, broker: broker.deployment });
  }
  step.note('the S3 credential sets of Capsules');
  const custody = await answerCustody(about);
  return {
    registered: registeredIn(await runAdminUntilAccepted(about, 'db-broker', ['list'])),
    unknown,
    ...custody,
  };
}

interface Listed {
  readonly capsule: string;
  readonly state: string;
  readonly databases: readonly { readonly app: string; readonly state: string }[];
}

const registeredIn = (text: string): Exchanged['registered'] =>
  linesOf<Listed>(text)
    .filter(({ state }) => state === 'active')
    .map(({ capsule, databases }) => ({
      capsule,
      apps: databases.filter(({ state }) => state === 'ready').map(({ app }) => app),
    }));

/**
 * Each new principal is written where the operator reads it, then registered at the broker; an interrupted run begins
 * again. Returns the Capsules that the broker does not know.
 */
async function exchangePrincipals(
  about: Exchange,
  { deployment, audience, ending }: (typeof BROKERS)[number],
): Promise<readonly string[]> {
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
        // The Capsule that is applied later has another UID, and must get its data.
        labels: { ...metadata.labels, 'platform.space/retained': 'true' },
        annotations: metadata.annotations,
      },
      type,
      data: { ...data, principal: Buffer.from(token).toString('base64') },
    });
    lines.push(`${capsule} ${token}\n`);
  }
  const [told] = linesOf<{ unknown: readonly string[] }>(
    await runAdminUntilAccepted(about, deployment, ['replace-principals'], lines.join('')),
  );
  return told?.unknown ?? [];
}

/**
 * Sets of credentials that were changed after the backup are closed. They may contain a key that its Capsule has
 * retired since, which no program can tell, so they stay closed until a person accepts the restored ones.
 */
async function answerCustody(about: Exchange): Promise<Pick<Exchanged, 'setBack' | 'accepted'>> {
  const states = linesOf<{ capsule: string; state: string }>(
    await runAdminUntilAccepted(about, 'objectstore-broker', ['custody']),
  );
  const behind = states.filter(({ state }) => state === 'rollback').map(({ capsule }) => capsule);
  const accepted = behind.filter((capsule) => about.accepted.includes(capsule));
  for (const capsule of accepted)
    await runAdminUntilAccepted(about, 'objectstore-broker', ['restore', 'accept', capsule]);
  return { setBack: behind.filter((capsule) => !accepted.includes(capsule)), accepted };
}
