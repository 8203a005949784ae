import type { AssistantStatus } from '@space/manifests';
import { type Findings, lastFindings } from '../conditions.ts';
import type { Context } from '../context.ts';
import { CLOSED } from '../egress/compile.ts';
import { ASSISTANT, type Assistant } from '../kinds.ts';
import { requireAlive } from '../last-word.ts';
import { ASSISTANT_FINALIZER } from '../names.ts';
import { asRefused } from '../refusals.ts';
import type { Result } from '../runtime/controller.ts';
import { addFinalizer } from '../runtime/finalizer.ts';
import type { Key } from '../runtime/kube-object.ts';
import { together } from '../runtime/together.ts';
import type { Step } from '../step.ts';
import { type Facts, gatherFacts, type RunFacts, UnreadFactError } from './facts.ts';
import { finalizeAssistant } from './finalize.ts';
import { type Plan, planAssistant } from './plan.ts';
import { ensureData } from './provision.ts';
import { nextLook } from './requeue.ts';
import { runsManifest } from './running.ts';
import { manifestOf, reportAssistant } from './status.ts';
import { ensureDeployment, findingOfRunning, mustStop, scaleToZero } from './steps/deployment.ts';
import { ensureDocuments } from './steps/documents.ts';
import { ensureEgress, narrowEgress } from './steps/egress.ts';
import { runningEgress } from './steps/running-egress.ts';
import { readUsage } from './steps/usage.ts';

/** Reconciles one Assistant: facts, plan, finalizer, steps, status. No step is taken before the plan allows it. */
export async function reconcileAssistant(context: Context, key: Key, signal: AbortSignal): Promise<Result> {
  const assistant = context.stores.assistants.get(key);
  if (!assistant) return {};
  if (assistant.metadata.deletionTimestamp !== undefined)
    return finalizeAssistant(context, assistant, signal);
  const facts = await gatherFacts(context, assistant, signal).catch((error: unknown) =>
    reportUnread(context, assistant, error, signal),
  );
  const plan = planAssistant(facts);
  const outcome = await carryOut(context, facts, plan, signal).catch(refusedOutcome);
  const findings = { ...plan.findings, ...outcome.findings };
  const report = { findings, manifest: manifestOf(facts, plan), usage: outcome.usage };
  await reportAssistant(context, assistant, report, signal);
  if (outcome.retry) throw outcome.retry;
  return { requeueAfterMs: nextLook(context, facts, plan, outcome) };
}

/**
 * Nothing is decided without all facts, so the other conditions stay as they were found; of another spec only those
 * about data do, which say what there is.
 */
async function reportUnread(
  context: Context,
  assistant: Assistant,
  error: unknown,
  signal: AbortSignal,
): Promise<never> {
  if (!(error instanceof UnreadFactError)) throw error;
  const { finding } = asRefused(error.cause);
  const { conditions, manifest, observedGeneration } = assistant.status ?? {};
  const known = lastFindings(conditions);
  const { DatabaseReady, ObjectStoreReady } = known;
  const data = { ...(DatabaseReady && { DatabaseReady }), ...(ObjectStoreReady && { ObjectStoreReady }) };
  const kept = observedGeneration === assistant.metadata.generation ? known : data;
  const findings = { ...kept, [error.condition]: finding };
  await reportAssistant(context, assistant, { findings, manifest }, signal);
  throw error;
}

/** The combined result of the steps. */
interface Outcome {
  /** Findings of the steps, which replace those of the plan. */
  readonly findings: Findings;
  readonly retry?: unknown;
  readonly requeueAfterMs?: number | undefined;
  readonly granted?: boolean | undefined;
  readonly usage?: AssistantStatus['usage'] | undefined;
}

const refusedStep = (error: unknown): Step => asRefused(error);

function refusedOutcome(error: unknown): Outcome {
  const { finding, retry } = asRefused(error);
  return { findings: { WorkloadReady: finding }, retry };
}

/** Takes the steps that the plan allows, the finalizer first. */
async function carryOut(context: Context, facts: Facts, plan: Plan, signal: AbortSignal): Promise<Outcome> {
  const { assistant, claim, deployment, workload } = facts;
  const finalizer = { resource: ASSISTANT, name: ASSISTANT_FINALIZER };
  if (plan.accepted) await addFinalizer(context.writer, finalizer, assistant, signal);
  const owns = claim.registered === assistant.metadata.uid;
  const begins = plan.run || plan.provisionForRestore;
  if (begins && !owns) await requireAlive(context, finalizer, assistant, signal);
  // Access that the manifest no longer asks for ends at once, whatever delays the other steps: the pods of an Assistant
  // that owns its id go on, also while it is not accepted.
  const keeps = workload && plan.onlyWaits && runsManifest(deployment, workload);
  const kept = keeps ? await keepEgress(context, { ...facts, workload }, signal) : NOTHING_KEPT;
  const retry =
    workload && (plan.accepted || owns) && !plan.run && !keeps
      ? await narrow(context, { ...facts, workload }, plan, signal)
      : kept.retry;
  if (plan.suspended || plan.restoring || mustStop(context, facts)) {
    await scaleToZero(context, facts, signal);
    return plan.provisionForRestore && workload
      ? provisionForRestore(context, { ...facts, workload }, plan, signal)
      : { findings: {}, retry };
  }
  if (plan.run && workload) return run(context, { ...facts, workload }, plan, signal);
  const running = findingOfRunning(context, facts);
  return { findings: { ...kept.findings, ...(running ? { WorkloadReady: running } : {}) }, retry };
}

/**
 * Ends what the manifest of now does not permit. What the running pods keep is read for replicas of the gateway that have
 * restarted; if it cannot be read, the rest is done all the same.
 */
async function narrow(context: Context, facts: RunFacts, plan: Plan, signal: AbortSignal): Promise<unknown> {
  const { workload } = facts;
  if (plan.suspended) return narrowEgress(context, workload, CLOSED, signal);
  const [running, unread] = await runningEgress(context, facts, signal).then(
    (running) => [running, undefined] as const,
    (error: unknown) => [undefined, error] as const,
  );
  return (await narrowEgress(context, workload, workload.egress.policy, signal, running)) ?? unread;
}

const NOTHING_KEPT: Outcome = { findings: {} };

/**
 * Keeps the policy of running pods up while their Capsule or the sandbox is not ready: pods that are replaced have other
 * addresses, and replicas of the gateway that restart have none. Whatever fails is reported first and then retried.
 */
async function keepEgress(context: Context, facts: RunFacts, signal: AbortSignal): Promise<Outcome> {
  try {
    const { finding, retry } = await ensureEgress(context, facts, signal).catch(asRefused);
    return { findings: { EgressReady: finding }, retry };
  } catch (retry) {
    return { findings: egressBefore(facts), retry };
  }
}

/** What the status says of the policy, if it is of this manifest: of another one it may name a fault. */
function egressBefore({ assistant: { status }, workload }: RunFacts): Findings {
  const { EgressReady } = lastFindings(status?.conditions);
  return EgressReady && status?.manifest?.digest === `sha256:${workload.digest}` ? { EgressReady } : {};
}

/** Database, files, egress and documents are prepared at the same time; the Deployment waits for all of them. */
async function run(context: Context, facts: RunFacts, plan: Plan, signal: AbortSignal): Promise<Outcome> {
  // The check before the first Deployment starts now, and its result is cached. A failure is reported when the
  // Deployment step asks again.
  if (!facts.deployment) void context.admission(signal).catch(() => undefined);
  const [{ database, files, refused }, egress, documents] = await together([
    ensureData(context, facts, plan, signal),
    ensureEgress(context, facts, signal).catch(asRefused),
    ensureDocuments(context, facts, signal).catch(asRefused),
  ]);
  const provided = { database, files, egress, documents };
  // What the other steps have found is in the status in any case: a deletion may go by what it says of the database.
  const deployment = await ensureDeployment(context, facts, provided, signal).catch(refusedStep);
  const { usage, lost } = await readUsage(context, facts, signal);
  return {
    usage,
    findings: {
      DatabaseReady: database.finding,
      ...(files ? { ObjectStoreReady: files.finding } : {}),
      ...lost,
      EgressReady: egress.finding,
      WorkloadReady: refused ?? deployment.finding,
    },
    retry: [database, files, egress, documents, deployment].find((step) => step?.retry)?.retry,
    requeueAfterMs: deployment.output?.requeueAfterMs,
    granted: files?.output?.granted,
  };
}

/** Prepares the database and the files that a backup is restored into, and nothing that only pods need. */
async function provisionForRestore(
  context: Context,
  facts: RunFacts,
  plan: Plan,
  signal: AbortSignal,
): Promise<Outcome> {
  const { database, files, refused } = await ensureData(context, facts, plan, signal);
  return {
    findings: {
      DatabaseReady: database.finding,
      ...(files ? { ObjectStoreReady: files.finding } : {}),
      ...(refused ? { WorkloadReady: refused } : {}),
    },
    retry: database.retry ?? files?.retry,
  };
}
