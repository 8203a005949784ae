import { brokerFinding } from '../brokers/findings.ts';
import type { ObjectStoreBroker } from '../brokers/objects.ts';
import { encode } from '../capsule/principal.ts';
import type { Finding } from '../conditions.ts';
import type { Context } from '../context.ts';
import { SECRET, type SecretObject } from '../kinds.ts';
import { Secret } from '../secret.ts';
import { claimsOf, isFresh, type Subject } from './mint.ts';
import type { GrantKey } from './sign.ts';

/** How old the selection may be that grants are made by. */
export const GRANTS_MS = 60_000;

interface GrantStep {
  readonly finding?: Finding;
  readonly retry?: unknown;
}

interface About {
  readonly capsule: string;
  readonly app: string;
  /** The Capsule's. */
  readonly principal: Secret;
  /** The Assistant's, with its token, and its grant if it has one. */
  readonly secret: SecretObject;
}

/**
 * Keeps the grant beside the Assistant's token: for the set that its Capsule has selected, at its generation; none when
 * it has selected none. Nothing here has ever seen a submitted key.
 */
export async function ensureGrant(
  context: Context,
  broker: ObjectStoreBroker,
  readKey: () => Promise<GrantKey>,
  { capsule, app, principal, secret }: About,
  signal: AbortSignal,
): Promise<GrantStep> {
  try {
    const selection = await broker.selection(capsule, principal, signal);
    const before = decode(secret.data?.['grant']);
    if (selection === undefined) {
      if (before !== undefined) await write(context, secret, null, signal);
      return {};
    }
    const token = new Secret(decode(secret.data?.['token']) ?? '');
    const subject: Subject = { space: context.names.space, capsule, app, token, selection };
    const key = await readKey();
    const now = new Date(context.now());
    if (before !== undefined && isFresh(before, key.kid, subject, now)) return {};
    await write(context, secret, encode(new Secret(await key.sign(claimsOf(subject, now)))), signal);
    return {};
  } catch (error) {
    const finding = brokerFinding(error);
    if (!finding) throw error;
    return { finding, retry: error };
  }
}

/** Only over the Secret that was seen: its token may be exchanged at the same time. */
async function write(
  context: Context,
  secret: SecretObject,
  grant: string | null,
  signal: AbortSignal,
): Promise<void> {
  const { resourceVersion } = secret.metadata;
  await context.writer.merge(SECRET, secret, { metadata: { resourceVersion }, data: { grant } }, signal);
}

function decode(data: string | undefined): string | undefined {
  return data === undefined ? undefined : Buffer.from(data, 'base64').toString('utf8');
}
