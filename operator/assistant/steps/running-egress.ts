import { definitionDigest, parseManifest } from '@space/manifests';
import type { Context } from '../../context.ts';
import { compileEgress, type EgressPolicy } from '../../egress/compile.ts';
import type { RunningPolicy } from '../../egress/gateways.ts';
import { sha256 } from '../../runtime/digest.ts';
import { decideApproval } from '../decide.ts';
import type { RunFacts } from '../facts.ts';
import { manifestName, type Workload } from '../identity.ts';
import { markReflected } from '../inputs/reflected.ts';
import { usableEnvelopes } from '../inputs/seal.ts';
import { readSealed } from '../inputs/sealed.ts';
import { readRunning } from '../running.ts';
import { contentOf } from './egress.ts';
import { readEgressPrincipal } from './egress-principal.ts';

/**
 * What the running pods of an Assistant may keep while its manifest of now cannot take effect, for replicas of the gateway that
 * have no policy of it: of the manifest that they run what the one of now permits, too. Values are those that are sealed
 * already; nothing is sealed or entered for it. Undefined if that is nothing, or if no person who approves manifests stands for
 * it any more.
 */
export async function runningEgress(
  context: Context,
  facts: RunFacts,
  signal: AbortSignal,
): Promise<RunningPolicy | undefined> {
  const { assistant, workload, capsule, deployment, pods } = facts;
  if (pods.length === 0) return undefined;
  const running = await readManifest(context, workload, deployment, signal);
  if (running === undefined || decideApproval(assistant, running, capsule) !== undefined) return undefined;
  const policy = common(running.egress.policy, workload.egress.policy);
  if (policy.allowedHosts.length === 0 && Object.keys(policy.inputs).length === 0) return undefined;
  const principalDigest = await readEgressPrincipal(context, workload, signal);
  if (principalDigest === undefined) return undefined;
  const sent = usableEnvelopes(facts.sealed.inputs, policy.inputs);
  const reflected = await markReflected(context, running, sent, signal);
  const sealed = reflected
    ? await readSealed(context, assistant, running.manifest.platform.id, signal)
    : undefined;
  const envelopes = sealed ? usableEnvelopes(sealed.inputs, policy.inputs) : sent;
  return contentOf(policy, principalDigest, envelopes);
}

/** The workload of the running manifest. Its text is taken for what its name says, the digest that was approved. */
async function readManifest(
  context: Context,
  workload: Workload,
  deployment: RunFacts['deployment'],
  signal: AbortSignal,
): Promise<Workload | undefined> {
  const document = await readRunning(context, workload, deployment, signal);
  if (document === undefined) return undefined;
  const parsed = parseManifest(document.text);
  if (!parsed.ok) return undefined;
  const { manifest } = parsed;
  const { id } = workload.manifest.platform;
  const digest = sha256(document.text);
  if (manifest.platform.id !== id || document.name !== manifestName(id, digest)) return undefined;
  return { ...workload, manifest, digest, egress: compileEgress(manifest) };
}

/** What both permit. A stored input is the same only if its definition is. */
function common(one: EgressPolicy, other: EgressPolicy): EgressPolicy {
  // A manifest may name an input "constructor".
  const inputs = Object.entries(one.inputs).filter(([key, definition]) => {
    const wanted = Object.hasOwn(other.inputs, key) ? other.inputs[key] : undefined;
    return wanted !== undefined && definitionDigest(wanted) === definitionDigest(definition);
  });
  return {
    allowedHosts: one.allowedHosts.filter((host) => other.allowedHosts.includes(host)),
    inputs: Object.fromEntries(inputs),
  };
}
