import { type Finding, no } from './conditions.ts';
import { WriteRefusedError } from './runtime/errors.ts';
import { oneLine } from './text.ts';

const LONGEST = 400;

/** A step's finding, and what is thrown once it is told: the write is tried again. */
export interface Refused {
  readonly finding: Finding;
  readonly retry: unknown;
}

/**
 * What a person should know of a write that was refused, or undefined when the failure is of another kind. What a
 * namespace that is being deleted refuses is no news: its own condition says so.
 */
function refusalOf(error: unknown): Refused | undefined {
  if (!(error instanceof WriteRefusedError) || error.said.includes('because it is being terminated'))
    return undefined;
  const finding = no(
    'WriteRefused',
    `The API server does not let the operator ${error.write}: ${told(error.said)} It is tried again, and goes on by itself when the policy, the webhook or the missing right that says so is mended.`,
  );
  return { finding, retry: error };
}

/** For `catch`: the refusal as what the step found; everything else is thrown on. */
export function asRefused(error: unknown): Refused {
  const refused = refusalOf(error);
  if (!refused) throw error;
  return refused;
}

/** For a deletion: what was refused is told before it is thrown on. */
export async function tellingRefusal<T>(
  tell: (finding: Finding) => Promise<void>,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    const refused = refusalOf(error);
    if (refused) await tell(refused.finding);
    throw error;
  }
}

/** Somebody else's words, in quotation marks. */
export function told(text: string): string {
  return JSON.stringify(oneLine(text, LONGEST));
}
