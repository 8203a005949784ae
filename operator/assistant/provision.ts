import type { Finding } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { SecretObject } from '../kinds.ts';
import { asRefused } from '../refusals.ts';
import { together } from '../runtime/together.ts';
import type { Step } from '../step.ts';
import { claimId, databaseBefore, recordOf } from './claim.ts';
import type { RunFacts } from './facts.ts';
import type { Plan } from './plan.ts';
import { manifestOf, reportAssistant } from './status.ts';
import { ensureDatabase } from './steps/database.ts';
import type { Provided } from './steps/deployment.ts';
import { ensureFiles } from './steps/files.ts';

interface Data extends Pick<Provided, 'database' | 'files'> {
  /** A refused write of which the condition of the database does not tell, since it says more than that. */
  readonly refused?: Finding | undefined;
}

/**
 * Claims the id, then asks both brokers at the same time. The status says so before they are asked: if the namespace is
 * deleted with the claim in it, a deletion of the Assistant still drops its data.
 */
export async function ensureData(
  context: Context,
  facts: RunFacts,
  plan: Plan,
  signal: AbortSignal,
): Promise<Data> {
  const { objectStore } = context;
  const before = databaseBefore(facts.assistant);
  const record = recordOf(plan.findings.DatabaseReady);
  const claim = await claimId(context, facts, signal).catch(refusedClaim);
  const { finding, output: databaseSecret, retry } = claim;
  if (!databaseSecret && before)
    return { database: { finding: record, retry }, files: undefined, refused: finding };
  if (!databaseSecret) return { database: { finding, retry }, files: undefined };
  if (!before) {
    const findings = { ...plan.findings, DatabaseReady: record };
    const report = { findings, manifest: manifestOf(facts, plan) };
    await reportAssistant(context, facts.assistant, report, signal);
  }
  const [database, files] = await together([
    ensureDatabase(context, { ...facts, databaseSecret }, signal).catch(asRefused),
    objectStore && ensureFiles(context, objectStore, facts, signal).catch(asRefused),
  ]);
  if (database.finding.reason !== 'WriteRefused') return { database, files };
  return { database: { ...database, finding: record }, files, refused: database.finding };
}

const refusedClaim = (error: unknown): Step<SecretObject> => asRefused(error);
