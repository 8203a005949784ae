import { canonicalJson, definitionDigest } from '@space/manifests';
import { type Finding, isTrue, no, yes } from '../../conditions.ts';
import { type Context, readCapsuleSecret, readSecret } from '../../context.ts';
import type { EgressPolicy } from '../../egress/compile.ts';
import type { RunningPolicy } from '../../egress/gateways.ts';
import { ReplicaError } from '../../egress/replica.ts';
import type { Acknowledged, Addresses } from '../../egress/replica-record.ts';
import { type Assistant, SECRET } from '../../kinds.ts';
import { ANNOTATION, capsuleNamespace, egressSecretName, sealedSecretName } from '../../names.ts';
import type { Result } from '../../runtime/controller.ts';
import { sha256 } from '../../runtime/digest.ts';
import type { Key } from '../../runtime/kube-object.ts';
import type { Step } from '../../step.ts';
import { idOf, type Stores } from '../../stores.ts';
import type { Blocked } from '../data.ts';
import type { EgressBinding } from '../egress-parts.ts';
import type { RunFacts } from '../facts.ts';
import { aboutOf, type Leaving, type Workload } from '../identity.ts';
import { type Definitions, howToEnter } from '../inputs/judge.ts';
import { markReflected } from '../inputs/reflected.ts';
import { type Envelopes, ensureSealed, keepResealed } from '../inputs/seal.ts';
import { addressesOfPods, podsOf } from '../pods.ts';
import { ensureEgressPrincipal } from './egress-principal.ts';

/**
 * Ensures principal, sealed values and policy. The step is done once every replica that receives connections has
 * acknowledged the policy.
 */
export async function ensureEgress(
  context: Context,
  { workload, entered, sealed, addresses }: RunFacts,
  signal: AbortSignal,
): Promise<Step<EgressBinding>> {
  const { policy, finding } = workload.egress;
  if (finding.reason === 'NotNeeded') {
    const retry = await narrowEgress(context, workload, policy, signal);
    // A value that was sealed for an earlier manifest must not be bound again by a later one.
    await ensureSealed(context, workload, { entered, sealed }, signal);
    return { finding, retry };
  }
  try {
    const principalDigest = await ensureEgressPrincipal(context, workload, signal);
    const envelopes = await ensureSealed(context, workload, { entered, sealed }, signal);
    const put = { ...messageAbout(workload), ...contentOf(policy, principalDigest, envelopes) };
    const outcome = await context.gateways.put(put, presentAddresses(context, workload), signal);
    const { resealed } = outcome;
    // Replicas tell by the envelopes that they have, and another one would count as another value.
    const reflected = await markReflected(context, workload, envelopes, signal);
    if (!reflected) await keepResealed(context, workload, { sealed, sent: envelopes, resealed }, signal);
    const finding = reflected ?? acknowledged(outcome, policy.inputs);
    if (!isTrue(finding)) return { finding, retry: outcome.problem };
    const address = addresses.egress;
    if (address === undefined) return { finding: NO_SERVICE };
    return { finding, output: { address, principalDigest, inputs: Object.keys(policy.inputs) } };
  } catch (error) {
    if (!(error instanceof ReplicaError)) throw error;
    return { finding: UNAVAILABLE, retry: error };
  }
}

/** A policy as the gateway gets it; a stored input without a sealed value is not in it. */
export function contentOf(
  policy: EgressPolicy,
  principalDigest: string,
  envelopes: Envelopes,
): RunningPolicy {
  const stored_inputs = Object.fromEntries(
    Object.entries(policy.inputs).flatMap(([key, definition]) => {
      const envelope = Object.hasOwn(envelopes, key) ? envelopes[key] : undefined;
      return envelope === undefined ? [] : [[key, { definition, envelope }] as const];
    }),
  );
  const content = { allowed_hosts: policy.allowedHosts, stored_inputs, principals: [principalDigest] };
  return { ...content, revision: sha256(canonicalJson(content)) };
}

/**
 * Closes access that the manifest no longer asks for, also while something else prevents the manifest from taking
 * effect. What stays open follows the pods, since running ones are replaced meanwhile; a replica that restarts begins with
 * `running`. Returns the error of a replica that has to be called again.
 */
export async function narrowEgress(
  context: Context,
  workload: Workload,
  policy: EgressPolicy,
  signal: AbortSignal,
  running?: RunningPolicy,
): Promise<unknown> {
  const definitions = Object.entries(policy.inputs);
  const { problem } = await context.gateways.narrow(
    {
      ...messageAbout(workload),
      allowed_hosts: policy.allowedHosts,
      stored_inputs: Object.fromEntries(definitions.map(([key, input]) => [key, definitionDigest(input)])),
      ...(running && { running }),
    },
    presentAddresses(context, workload),
    signal,
  );
  return problem;
}

const messageAbout = ({ assistant, manifest }: Workload) => ({
  ...aboutOf(assistant, manifest.platform.id),
  generation: assistant.metadata.generation ?? 0,
});

/** Where the Assistant's pods are, whenever it is asked. */
const presentAddresses = ({ stores }: Context, { assistant, manifest }: Workload): Addresses =>
  addressesNow(stores, assistant, manifest.platform.id);

const addressesNow =
  (stores: Stores, { metadata: { uid }, spec: { capsule } }: Assistant, id: string): Addresses =>
  () =>
    addressesOfPods(podsOf(stores, { uid, capsule, id }));

/**
 * Tells the gateway of pods that have come or gone, whatever else delays a reconcile of their Assistant, such as a
 * broker that does not answer: a pod that starts must not wait for that.
 */
export async function announceAddresses(context: Context, key: Key, signal: AbortSignal): Promise<Result> {
  const { stores, gateways } = context;
  const assistant = stores.assistants.get(key);
  const id = assistant && idOf(assistant);
  if (assistant === undefined || id === undefined) return {};
  await gateways.announce(aboutOf(assistant, id), addressesNow(stores, assistant, id), signal);
  return {};
}

/**
 * Removes the policy after the pods are gone, and then principal and sealed values. A replica that missed it would admit
 * whoever has one of the addresses and the principal, so that nothing else may end before all have acknowledged it.
 */
export async function removeEgress(
  context: Context,
  { assistant, id }: Leaving,
  signal: AbortSignal,
): Promise<Blocked | undefined> {
  const missed = await context.gateways.remove(aboutOf(assistant, id), signal);
  if (missed) return { finding: unacknowledged(missed.pods), cause: missed.problem };
  const { names } = context;
  const { capsule } = assistant.spec;
  const places = [
    [capsuleNamespace(names.space, capsule), egressSecretName(id)],
    [names.systemNamespace, sealedSecretName(capsule, id)],
  ] as const;
  for (const [namespace, name] of places) {
    const read = namespace === names.systemNamespace ? readSecret : readCapsuleSecret;
    const secret = await read(context, namespace, name, signal);
    if (secret === undefined) continue;
    // One that does not say whose it is any more is nobody's: no Assistant uses it.
    const { [ANNOTATION.owner]: owner = assistant.metadata.uid } = secret.metadata.annotations ?? {};
    if (owner === assistant.metadata.uid) await context.writer.remove(SECRET, secret, signal);
  }
  return undefined;
}

/** As many as the message has room for. */
const SOME_PODS = 5;

function unacknowledged(pods: readonly string[]): Finding {
  const some = pods.slice(0, SOME_PODS).join(', ');
  const more = pods.length > SOME_PODS ? ` and ${pods.length - SOME_PODS} more` : '';
  return no(
    'GatewayNotAcknowledged',
    `Replicas of the egress gateway that have not acknowledged the end of its policy, and may still admit its principal: ${some}${more}. They are told again, and no data is dropped before. If one does not answer any more, delete its pod in the services namespace.`,
  );
}

function acknowledged(
  { serving, acknowledged: known, reentry }: Acknowledged,
  definitions: Definitions,
): Finding {
  if (serving === 0) return UNAVAILABLE;
  if (known < serving)
    return no(
      'GatewayNotAcknowledged',
      `${known} of ${serving} replicas of the egress gateway have this policy. See the Deployment platform-assistant-egress in the services namespace.`,
    );
  if (reentry.length > 0)
    return no(
      'InputNeedsReentry',
      `The egress gateway cannot open the value of ${reentry.join(', ')}. Enter it again ${howToEnter(reentry, definitions)}.`,
    );
  return yes('Ready', 'Every replica of the egress gateway has this policy.');
}

const UNAVAILABLE = no(
  'GatewayUnavailable',
  'The egress gateway does not answer; it is retried. See the Deployment platform-assistant-egress in the services namespace.',
);
const NO_SERVICE = no(
  'ServiceNotFound',
  'The services namespace has no Service labelled platform.space/component=egress with an address. Repair the release with helm upgrade.',
);
