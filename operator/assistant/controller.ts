import { checkManifest, type Manifest, manifestDigest } from '@space/manifests';
import { findBreach } from '../capsule/walls.ts';
import { type Finding, isTrue, no } from '../conditions.ts';
import type { Context } from '../context.ts';
import { compileEgress } from '../egress/compile.ts';
import { type EgressStep, ensureEgress, narrowEgress } from '../egress/step.ts';
import { GRANTED_MS, UNGRANTED_MS } from '../grants/step.ts';
import { ASSISTANT, type Assistant, DEPLOYMENT, SERVICE } from '../kinds.ts';
import { ANNOTATION, ASSISTANT_FINALIZER } from '../names.ts';
import { asRefused, told as quoted } from '../refusals.ts';
import type { Result } from '../runtime/controller.ts';
import { WriteRefusedError } from '../runtime/errors.ts';
import { addFinalizer } from '../runtime/finalizer.ts';
import { type Key, makeKey } from '../runtime/objects.ts';
import { together } from '../runtime/together.ts';
import { isLost } from '../sandbox/gate.ts';
import { claimId, type DatabaseStep, ensureDatabase, LOST_RACE } from './database.ts';
import { waitsFor } from './decide.ts';
import { ensureDocuments, sweepDocuments } from './documents.ts';
import { finalizeAssistant } from './finalize.ts';
import { type Gathered, gather } from './gather.ts';
import { decideWorkload } from './health.ts';
import { ensureObjects, type ObjectStoreStep } from './objects.ts';
import { type Plan, planAssistant } from './plan.ts';
import { tellWiderPowers, widerPowers } from './powers.ts';
import { AGAIN_MS, askAgain, refusedForSandbox } from './retry.ts';
import { reportAssistant } from './status.ts';
import { deploymentObject, serviceObject, type Workload, workloadNamespace } from './workload.ts';

const LOOK_AGAIN_MS = 15_000;
/** How old the value of a stored input may be, and what is known of whether its host tells it. */
const INPUTS_MS = 60_000;

/** The order of an Assistant: understood, finalizer, database, workload, Ready. Nothing runs before its plan says so. */
export async function reconcileAssistant(context: Context, key: Key, signal: AbortSignal): Promise<Result> {
  const assistant = context.stores.assistants.get(key);
  if (!assistant) return {};
  if (assistant.metadata.deletionTimestamp !== undefined)
    return finalizeAssistant(context, assistant, signal);
  const check = checkManifest(assistant.spec.manifest);
  const facts = await gather(context, assistant, check, signal);
  const plan = planAssistant(facts);
  const acted = await act(context, facts, plan, signal).catch(nothingDone);

  const findings = { ...plan.findings };
  if (acted.database) findings['DatabaseReady'] = acted.database;
  if (acted.objects) findings['ObjectStoreReady'] = acted.objects;
  if (acted.egress) findings['EgressReady'] = acted.egress;
  if (acted.workload) findings['WorkloadReady'] = acted.workload;
  const manifest =
    check.ok && plan.accepted
      ? {
          id: check.manifest.platform.id,
          version: check.manifest.platform.version,
          digest: `sha256:${manifestDigest(check.manifest)}`,
        }
      : assistant.status?.manifest;
  await reportAssistant(context, assistant, manifest, findings, signal);
  if (acted.retry) throw acted.retry;
  return { requeueAfterMs: acted.again ? AGAIN_MS : lookAgainMs(context, plan.findings, facts, acted) };
}

/** Secrets are not watched: where one may mend a finding, or change a value, it is looked at again soon. */
function lookAgainMs(
  context: Context,
  findings: Plan['findings'],
  { entered, sealed }: Gathered,
  { granted }: Acted,
): number {
  const lostId = findings['Accepted']?.reason === 'DuplicateIdentifier';
  const unbound = findings['InputsBound']?.status === 'False';
  if (lostId || unbound) return LOOK_AGAIN_MS;
  const grants = granted ? GRANTED_MS : UNGRANTED_MS;
  const most = context.objectStore && context.grantKey ? grants : context.sweepMs();
  return entered.values.size + Object.keys(sealed.inputs).length > 0 ? Math.min(INPUTS_MS, most) : most;
}

interface Acted {
  readonly database?: Finding;
  readonly objects?: Finding | undefined;
  readonly egress?: Finding;
  readonly workload?: Finding | undefined;
  readonly granted?: boolean;
  readonly retry?: unknown;
  /** Something outside may have to be asked once more. */
  readonly again?: boolean;
}

/** What there is to do, once everything is known: nothing of it before its finalizer is there. */
async function act(context: Context, facts: Gathered, plan: Plan, signal: AbortSignal): Promise<Acted> {
  const { assistant, check } = facts;
  if (plan.accepted) await addFinalizer(context.writer, ASSISTANT, assistant, ASSISTANT_FINALIZER, signal);
  const retry =
    check.ok && plan.accepted && !plan.run
      ? await narrow(context, assistant, check.manifest, plan.suspended, signal)
      : undefined;
  if (plan.suspended || mustStop(context, facts)) await scaleToZero(context, facts, signal);
  else if (!plan.run) return { workload: standing(context, facts), retry };
  else if (check.ok)
    return run(context, facts, { names: context.names, assistant, manifest: check.manifest }, signal);
  return { retry };
}

function nothingDone(error: unknown): Acted {
  const { finding, retry } = asRefused(error);
  return { workload: finding, retry };
}

async function run(
  context: Context,
  facts: Gathered,
  workload: Workload,
  signal: AbortSignal,
): Promise<Acted> {
  const { stores, writer } = context;
  const id = workload.manifest.platform.id;
  const key = makeKey(workloadNamespace(workload), id);
  const compiled = compileEgress(workload.manifest);
  const [{ database, objects }, outside, beside] = await together([
    ensureStores(context, facts, workload, signal),
    ensureEgress(context, workload, compiled, facts, signal).catch(egressRefused),
    together([
      ensureDocuments(context, workload, signal),
      writer.apply(SERVICE, serviceObject(workload), stores.services.get(key), signal),
    ]).then(() => undefined, asRefused),
  ]);
  const { access } = database;
  const told = {
    database: database.finding,
    objects: objects?.finding,
    egress: outside.egress,
    granted: objects?.granted === true,
    retry: database.retry ?? objects?.retry ?? outside.retry ?? beside?.retry,
  };
  if (beside) return { ...told, workload: beside.finding };
  if (!access) return { ...told, workload: standing(context, facts) ?? waitsFor('DatabaseReady') };
  if (objects && !objects.tokenDigest)
    return { ...told, workload: standing(context, facts) ?? waitsFor('ObjectStoreReady') };
  if (compiled.finding.reason !== 'NotNeeded' && !outside.binding)
    return { ...told, workload: standing(context, facts) ?? waitsFor('EgressReady') };
  if (!facts.postgresAddress) return { ...told, workload: noService('postgres', 'database') };
  if (objects && !facts.objectStoreAddress)
    return { ...told, workload: noService('objectstore', 'object store') };
  const { desired, revision } = deploymentObject(workload, {
    database: access,
    postgresAddress: facts.postgresAddress,
    ...(objects?.tokenDigest && facts.objectStoreAddress
      ? {
          objects: {
            tokenDigest: objects.tokenDigest,
            address: facts.objectStoreAddress,
            granted: context.grantKey !== undefined,
          },
        }
      : {}),
    egress: outside.binding,
  });
  const live = stores.deployments.get(key);
  const schedules =
    !live || !writer.stands(DEPLOYMENT, desired, live) || refusedForSandbox(context.names, live);
  const breach = schedules && facts.capsule && (await findBreach(context, facts.capsule, signal));
  if (breach) return { ...told, workload: breach, retry: told.retry ?? new Error(breach.message) };
  // It may have closed while these were made.
  if (!isTrue(context.gate()))
    return { ...told, workload: standing(context, facts) ?? waitsFor('SandboxReady') };
  try {
    const wider = await widerPowers(context, workload, facts.deployment, signal);
    const applied = await writer.apply(DEPLOYMENT, desired, stores.deployments.get(key), signal);
    if (applied === 'restored') tellRestored(context, facts);
    if (wider !== undefined) tellWiderPowers(context, workload, wider);
  } catch (error) {
    const { finding, retry } = asRefused(error);
    const invalid =
      error instanceof WriteRefusedError && !error.byAdmission && error.status !== 403 ? error : undefined;
    if (!invalid) return { ...told, workload: finding, retry: told.retry ?? retry };
    return {
      ...told,
      workload: no('PodsRefused', `The Deployment is not accepted: ${quoted(invalid.said)}`),
    };
  }
  const { image, replicas = 1 } = workload.assistant.spec;
  const { pods, without } = facts;
  const { attesterImage, handler } = context.names;
  const finding = decideWorkload({
    image,
    attesterImage,
    replicas,
    revision,
    deployment: stores.deployments.get(key),
    pods,
    handler,
    without,
  });
  if (isTrue(finding)) await sweepDocuments(context, workload, signal);
  const again = !isTrue(finding) && (await askAgain(context, stores.deployments.get(key), signal));
  return { ...told, workload: finding, again };
}

function egressRefused(error: unknown): EgressStep {
  const { finding, retry } = asRefused(error);
  return { egress: finding, retry };
}

/** Both brokers are asked at the same time, once the id is taken. */
async function ensureStores(
  context: Context,
  facts: Gathered,
  workload: Workload,
  signal: AbortSignal,
): Promise<{ readonly database: DatabaseStep; readonly objects: ObjectStoreStep | undefined }> {
  const claimed = await claimId(context, workload, facts.secret, signal).catch(asRefused);
  if (!claimed) return { database: LOST_RACE, objects: undefined };
  if ('finding' in claimed) return { database: claimed, objects: undefined };
  const { objectStore } = context;
  const [database, objects] = await together([
    ensureDatabase(context, workload, claimed, signal).catch(asRefused),
    objectStore && ensureObjects(context, objectStore, workload, facts, signal).catch(asRefused),
  ]);
  return { database, objects };
}

/** What the manifest does not ask for any more ends at once; what stands in the way of the rest does not matter. */
async function narrow(
  context: Context,
  assistant: Assistant,
  manifest: Manifest,
  suspended: boolean,
  signal: AbortSignal,
): Promise<unknown> {
  const compiled = compileEgress(
    suspended ? { ...manifest, network: { allowed_hosts: [] }, stored_inputs: {} } : manifest,
  );
  return narrowEgress(context, assistant, manifest.platform.id, compiled, signal);
}

/** What was scheduled earlier goes on while something stands in the way of more, and is told as it is. */
function standing(
  { names: { attesterImage, handler } }: Context,
  { assistant, deployment, pods, without }: Gathered,
): Finding | undefined {
  const revision = deployment?.spec?.template.metadata?.annotations?.[ANNOTATION.revision];
  if (!deployment || revision === undefined) return undefined;
  const replicas = deployment.spec?.replicas ?? 1;
  const { image } = assistant.spec;
  return decideWorkload({ image, attesterImage, replicas, revision, deployment, pods, handler, without });
}

/** What runs is in the sandbox, so it goes on unless told otherwise; that the gate cannot see, or a node rests, is no loss. */
function mustStop({ names }: Context, { sandbox }: Gathered): boolean {
  return names.onLoss === 'stop' && isLost(sandbox);
}

/** Works while the gate is closed too, as it starts nothing. */
async function scaleToZero(context: Context, { deployment }: Gathered, signal: AbortSignal): Promise<void> {
  if (!deployment || deployment.spec?.replicas === 0) return;
  await context.writer.merge(DEPLOYMENT, deployment, { spec: { replicas: 0 } }, signal);
}

function tellRestored(context: Context, { assistant }: Gathered): void {
  // Going on after a stop of our own is no restoration.
  const before = assistant.status?.conditions?.find(({ type }) => type === 'WorkloadReady')?.reason;
  if (before === 'Suspended' || before === 'Waiting') return;
  const note = 'Somebody had changed the Deployment of this Assistant; it was put back.';
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
