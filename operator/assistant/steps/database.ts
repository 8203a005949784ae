import { principalFinding } from '../../brokers/findings.ts';
import { encode, principalOf } from '../../capsule/principal.ts';
import { no, yes } from '../../conditions.ts';
import { type Context, readSecret } from '../../context.ts';
import { ASSISTANT, SECRET, type SecretObject } from '../../kinds.ts';
import { principalSecretName } from '../../names.ts';
import { issuedPatch, rotationAsked, rotationEvent } from '../../rotation.ts';
import { sha256 } from '../../runtime/digest.ts';
import type { Step } from '../../step.ts';
import type { RunFacts } from '../facts.ts';
import type { DatabaseAccess } from '../pod-template.ts';

const PROVISIONED = yes('Ready', 'It has a database of its own.');

/**
 * The URL joins the Secret by which the id was claimed. A rotation that is asked for is the same call over again.
 */
export async function ensureDatabase(
  context: Context,
  { workload, databaseSecret: secret }: RunFacts & { readonly databaseSecret: SecretObject },
  signal: AbortSignal,
): Promise<Step<DatabaseAccess>> {
  const known = secret.data?.['DATABASE_URL'];
  const rotation = rotationAsked(workload.assistant, secret);
  const ca = base64(await context.spaceCa());
  // With another authority the broker is asked again: it may also issue another form of the URL.
  const sameCa = secret.data?.['ca.crt'] === ca;
  const output = known ? accessOf(known, secret.data?.['ca.crt']) : undefined;
  if (known && rotation === undefined && sameCa) return { finding: PROVISIONED, output };

  const { capsule } = workload.assistant.spec;
  const name = principalSecretName(capsule);
  const principal = await readSecret(context, context.names.systemNamespace, name, signal);
  if (!principal?.data?.['principal']) {
    const finding = no(
      'PrincipalLost',
      `Secret "${name}" with the Capsule's principal is missing. Put it back from a backup.`,
    );
    return { finding, output, retry: new Error('a principal is missing') };
  }
  try {
    const { id } = workload.manifest.platform;
    const url = encode(await context.database.createApp(capsule, id, principalOf(principal), signal));
    const data = { DATABASE_URL: url, ...(sameCa ? {} : { 'ca.crt': ca ?? null }) };
    await context.writer.merge(SECRET, secret, issuedPatch(secret, data, rotation), signal);
    if (known && rotation !== undefined) {
      const consequence = 'Its pods are replaced by pods that have the new one.';
      const event = rotationEvent(url !== known, consequence, `rotate ${capsule} ${id}`);
      context.events.record(ASSISTANT, workload.assistant, event);
    }
    return { finding: PROVISIONED, output: accessOf(url, ca) };
  } catch (error) {
    const finding = principalFinding(error, { names: context.names, capsule, secretName: name });
    if (!finding) throw error;
    return { finding, output, retry: error };
  }
}

function accessOf(url: string, ca: string | undefined): DatabaseAccess {
  return { digest: sha256(ca === undefined ? url : `${url} ${ca}`), verified: ca !== undefined };
}

function base64(text: string | undefined): string | undefined {
  return text === undefined ? undefined : Buffer.from(text, 'utf8').toString('base64');
}
