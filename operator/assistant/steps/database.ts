import { asPrincipalRefused, missingPrincipal } from '../../brokers/findings.ts';
import { encode, principalOf } from '../../capsule/principal.ts';
import { yes } from '../../conditions.ts';
import { type Context, readSecret } from '../../context.ts';
import { ASSISTANT, SECRET, type SecretObject } from '../../kinds.ts';
import { principalSecretName } from '../../names.ts';
import { issuedPatch, rotationAsked, rotationEvent } from '../../rotation.ts';
import { toBase64 } from '../../runtime/base64.ts';
import { sha256 } from '../../runtime/digest.ts';
import type { Step } from '../../step.ts';
import type { RunFacts } from '../facts.ts';
import type { DatabaseAccess } from '../pod-spec.ts';

/** CA certificates that are stored beside the URL: the Space's own, and those of external PostgreSQL servers. */
const AUTHORITIES = ['ca.crt', 'postgres.crt'] as const;
type Authorities = { readonly [Name in (typeof AUTHORITIES)[number]]?: string | undefined };

const PROVISIONED = yes('Ready', 'It has a database of its own.');

/**
 * Ensures that the database exists and that its URL is in the Secret which claims the id. A requested rotation repeats
 * the same call.
 */
export async function ensureDatabase(
  context: Context,
  { workload, databaseSecret: secret }: RunFacts & { readonly databaseSecret: SecretObject },
  signal: AbortSignal,
): Promise<Step<DatabaseAccess>> {
  const known = secret.data?.['DATABASE_URL'];
  const rotation = rotationAsked(workload.assistant, secret);
  const [spaceCa, databaseCa] = [await context.spaceCa(), await context.databaseCa()];
  const authorities: Authorities = {
    'ca.crt': spaceCa && toBase64(spaceCa),
    'postgres.crt': databaseCa && toBase64(databaseCa),
  };
  // If an authority changed, the broker is asked again, since it may issue another form of the URL.
  const changed = AUTHORITIES.filter((name) => secret.data?.[name] !== authorities[name]);
  const output = known ? accessOf(known, secret.data ?? {}) : undefined;
  if (known && rotation === undefined && changed.length === 0) return { finding: PROVISIONED, output };

  const { names } = context;
  const { capsule } = workload.assistant.spec;
  const ref = { names, capsule, secretName: principalSecretName(capsule) };
  const principal = await readSecret(context, names.systemNamespace, ref.secretName, signal);
  if (!principal?.data?.['principal'])
    return { finding: missingPrincipal(ref), output, retry: new Error('a principal is missing') };
  try {
    const { id } = workload.manifest.platform;
    const url = encode(await context.database.createApp(capsule, id, principalOf(principal), signal));
    const others = changed.map((name) => [name, authorities[name] ?? null]);
    const data = { DATABASE_URL: url, ...Object.fromEntries(others) };
    await context.writer.merge(SECRET, secret, issuedPatch(secret, data, rotation), signal);
    // The call may have replaced the database, so its last known usage no longer counts.
    context.appUsages.forget(workload.assistant.metadata.uid ?? '');
    if (known && rotation !== undefined) {
      const consequence = 'Its pods are replaced by pods that have the new one.';
      const event = rotationEvent(url !== known, consequence, `rotate ${capsule} ${id}`);
      context.events.record(ASSISTANT, workload.assistant, event);
    }
    return { finding: PROVISIONED, output: accessOf(url, authorities) };
  } catch (error) {
    return { ...asPrincipalRefused(error, ref), output };
  }
}

function accessOf(url: string, authorities: Authorities): DatabaseAccess {
  const whole = [url, ...AUTHORITIES.flatMap((name) => authorities[name] ?? [])];
  return {
    digest: sha256(whole.join(' ')),
    verified: authorities['ca.crt'] !== undefined,
    serverCa: authorities['postgres.crt'] !== undefined,
  };
}
