import { type Finding, no } from './conditions.ts';
import { ReadRefusedError, WriteRefusedError } from './runtime/errors.ts';
import { oneLine } from './text.ts';

const LONGEST = 400;

/**
 * The finding of a step, and the error that is thrown after the finding is in the status, so that it is tried again.
 */
export interface Refused {
  readonly finding: Finding;
  readonly retry: unknown;
}

/**
 * The finding about a refused write or read, or undefined for other errors. Refusals by a namespace that is being deleted are
 * not reported here, since a condition says that it is being deleted.
 */
function refusalOf(error: unknown): Refused | undefined {
  if (error instanceof ReadRefusedError) return { finding: unread(error), retry: error };
  if (!(error instanceof WriteRefusedError) || error.said.includes('because it is being terminated'))
    return undefined;
  const finding = no(
    'WriteRefused',
    `The API server does not let the operator ${error.write}: ${quoted(error.said)} It is retried, and continues by itself once the policy, the webhook or the missing right that causes this is fixed.`,
  );
  return { finding, retry: error };
}

/** A read is refused by what is asked for and not by what is stored, so the API server's words are without values. */
const unread = ({ said }: ReadRefusedError): Finding =>
  no(
    'ReadRefused',
    `The API server does not let the operator read what it needs: ${quoted(said)} It is retried, and continues by itself once the operator has this right; restore those of the release with helm upgrade.`,
  );

/** For `catch`: turns a refusal into the result of a step, and throws every other error. */
export function asRefused(error: unknown): Refused {
  const refused = refusalOf(error);
  if (!refused) throw error;
  return refused;
}

/** For a deletion: reports a refusal in the status, then throws it. */
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

/** The text of somebody else, in quotation marks. */
export function quoted(text: string): string {
  return JSON.stringify(oneLine(text, LONGEST));
}
