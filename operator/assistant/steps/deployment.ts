import { findBreach } from '../../capsule/walls.ts';
import { type ConditionType, type Finding, isTrue, no } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { ASSISTANT, DEPLOYMENT, type Deployment } from '../../kinds.ts';
import { ANNOTATION } from '../../names.ts';
import { asRefused, quoted, type Refused } from '../../refusals.ts';
import type { Desired } from '../../runtime/apply.ts';
import { WriteRefusedError } from '../../runtime/errors.ts';
import { makeKey } from '../../runtime/kube-object.ts';
import { isLost } from '../../sandbox/gate.ts';
import type { Step } from '../../step.ts';
import { waitsFor } from '../decide.ts';
import type { EgressBinding } from '../egress-parts.ts';
import type { Facts, RunFacts } from '../facts.ts';
import { decideWorkload } from '../health.ts';
import { workloadNamespace } from '../identity.ts';
import type { Bindings, DatabaseAccess } from '../pod-spec.ts';
import { deploymentObject } from '../pod-template.ts';
import { tellWiderPowers, widerPowers } from '../powers.ts';
import { askAgain, refusedForSandbox } from '../retry.ts';
import { sweepDocuments } from './documents.ts';
import type { FilesAccess } from './files.ts';

/** Results of the steps that the Deployment depends on. */
export interface Provided {
  readonly database: Step<DatabaseAccess>;
  /** Undefined in a Space without an object store, and while another Assistant has the id. */
  readonly files: Step<FilesAccess> | undefined;
  readonly egress: Step<EgressBinding>;
  readonly documents: Step;
}

interface Requeue {
  readonly requeueAfterMs: number;
}

/** Applies the Deployment once everything that its pods need exists, and reports the state of the pods. */
export async function ensureDeployment(
  context: Context,
  facts: RunFacts,
  provided: Provided,
  signal: AbortSignal,
): Promise<Step<Requeue>> {
  const { stores, writer } = context;
  const { workload, capsule } = facts;
  const bindings = bindingsOf(context, facts, provided);
  if ('finding' in bindings) return bindings;
  const { desired, revision } = deploymentObject(workload, bindings);
  const key = makeKey(workloadNamespace(workload), desired.metadata.name);
  const live = stores.deployments.get(key);
  const schedules =
    !live || !writer.isApplied(DEPLOYMENT, desired, live) || refusedForSandbox(context.names, live);
  const breach =
    schedules &&
    ((capsule && (await findBreach(context, capsule, signal))) ?? (await context.admission(signal)));
  if (breach) return { finding: breach, retry: new Error(breach.message) };
  // The gate may have closed while the earlier steps ran.
  if (!isTrue(context.gate())) return waiting(context, facts, 'SandboxReady');
  if (!isTrue(context.network())) return waiting(context, facts, 'CapsuleReady');
  const refused = await applyDeployment(context, facts, desired, signal).catch(refusalOf);
  if (refused) return refused;
  const { replicas } = workload.assistant.spec;
  const finding = findingOf(context, facts, {
    deployment: stores.deployments.get(key),
    revision,
    replicas: replicas ?? 1,
  });
  if (isTrue(finding)) {
    await sweepDocuments(context, workload, signal);
    return { finding };
  }
  const requeueAfterMs = await askAgain(context, workload.assistant, stores.deployments.get(key), signal);
  return { finding, output: requeueAfterMs === undefined ? undefined : { requeueAfterMs } };
}

/** What the pod needs beside its spec, or a finding about the first part that is missing. */
function bindingsOf(
  context: Context,
  facts: RunFacts,
  { database, files, egress, documents }: Provided,
): Bindings | { readonly finding: Finding } {
  const { addresses, canaryAddresses, workload } = facts;
  if (!isTrue(documents.finding)) return { finding: documents.finding };
  if (!database.output) return waiting(context, facts, 'DatabaseReady');
  if (files && !files.output) return waiting(context, facts, 'ObjectStoreReady');
  if (workload.egress.finding.reason !== 'NotNeeded' && !egress.output)
    return waiting(context, facts, 'EgressReady');
  // The attester needs the canary's address; the Capsule's conditions report that it is missing.
  if (canaryAddresses.length === 0) return waiting(context, facts, 'CapsuleReady');
  if (!addresses.postgres) return { finding: noService('postgres', 'database') };
  if (files && !addresses.objectstore) return { finding: noService('objectstore', 'object store') };
  const objects = files?.output &&
    addresses.objectstore && {
      tokenDigest: files.output.tokenDigest,
      address: addresses.objectstore,
      granted: context.grantKey !== undefined,
    };
  return {
    database: database.output,
    postgresAddress: addresses.postgres,
    canaryAddresses,
    ...(objects ? { objects } : {}),
    egress: egress.output,
  };
}

/** The step while it waits for a condition: the running pods go on, if there are any. */
const waiting = (context: Context, facts: Facts, condition: ConditionType) => ({
  finding: findingOfRunning(context, facts) ?? waitsFor(condition),
});

/** Applies the Deployment, or returns what its new powers wait for. */
async function applyDeployment(
  context: Context,
  facts: RunFacts,
  desired: Desired,
  signal: AbortSignal,
): Promise<Refused | undefined> {
  const { workload, deployment } = facts;
  const wider = await widerPowers(context, workload, deployment, signal);
  const untold = wider === undefined ? undefined : await tellWiderPowers(context, workload, wider, signal);
  if (untold) return untold;
  const live = context.stores.deployments.get(makeKey(desired.metadata.namespace, desired.metadata.name));
  const applied = await context.writer.apply(DEPLOYMENT, desired, live, signal);
  if (applied === 'restored') tellRestored(context, facts);
  return undefined;
}

/**
 * A Deployment that the API server rejects as invalid is reported and not retried, since only a change of the spec
 * helps.
 */
function refusalOf(error: unknown): Refused | { readonly finding: Finding } {
  const refused = asRefused(error);
  const isInvalid = error instanceof WriteRefusedError && !error.byAdmission && error.status !== 403;
  if (!isInvalid) return refused;
  return { finding: no('PodsRefused', `The Deployment is not accepted: ${quoted(error.said)}`) };
}

/**
 * The state of the running Deployment, which goes on while something prevents a new one; undefined if there is none, or
 * if the operator has stopped it.
 */
export function findingOfRunning(context: Context, facts: Facts): Finding | undefined {
  const { deployment, assistant } = facts;
  if (deployment?.spec?.replicas === 0 && assistant.spec.replicas !== 0) return undefined;
  const revision = deployment?.spec?.template.metadata?.annotations?.[ANNOTATION.revision];
  if (!deployment || revision === undefined) return undefined;
  return findingOf(context, facts, { deployment, revision, replicas: deployment.spec?.replicas ?? 1 });
}

function findingOf(
  { names: { attesterImage, handler } }: Context,
  { assistant, pods, without, unready }: Facts,
  view: {
    readonly deployment: Deployment | undefined;
    readonly revision: string;
    readonly replicas: number;
  },
): Finding {
  return decideWorkload({
    image: assistant.spec.image,
    attesterImage,
    handler,
    pods,
    without,
    unready,
    ...view,
  });
}

/**
 * Whether running pods must stop. They are in the sandbox already, so they go on unless the chart's value
 * `sandbox.onLoss` says `stop`; a gate that cannot read the cluster, or nodes that are only unavailable, do not count
 * as a loss.
 */
export function mustStop({ names, network }: Context, { sandbox }: Facts): boolean {
  return names.onLoss === 'stop' && (isLost(sandbox) || isLost(network()));
}

/** Stops all pods. This works while the gate is closed, too, as it starts nothing. */
export async function scaleToZero(
  context: Context,
  { deployment }: Facts,
  signal: AbortSignal,
): Promise<void> {
  if (!deployment || deployment.spec?.replicas === 0) return;
  await context.writer.merge(DEPLOYMENT, deployment, { spec: { replicas: 0 } }, signal);
}

function tellRestored(context: Context, { assistant }: Facts): void {
  // The operator scaled the Deployment down itself, so scaling it up again restores nothing.
  const before = assistant.status?.conditions?.find(({ type }) => type === 'WorkloadReady')?.reason;
  if (before === 'Suspended' || before === 'Restoring' || before === 'Waiting') return;
  const note = 'Somebody had changed the Deployment of this Assistant; it was restored.';
  context.events.record(ASSISTANT, assistant, {
    type: 'Warning',
    reason: 'WorkloadRestored',
    action: 'Restore',
    note,
  });
}

const noService = (component: string, what: string) =>
  no(
    'ServiceNotFound',
    `The services namespace has no Service labelled platform.space/component=${component} with an address, so its ${what} cannot be reached. Repair the release with helm upgrade.`,
  );
