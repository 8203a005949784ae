import { PageError } from '../http/outcome.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { type Doing, MERGE, recording } from '../kubernetes/record.ts';
import { type AssistantView, assistantPath, getAssistant } from '../kubernetes/space.ts';
import type { Visit } from '../visit.ts';
import { boundOf, inputOf, secretOf, seenOf } from './stored-inputs.ts';

const TRIES = 8;

/**
 * Sets the name of the input's Secret in the Assistant. Since the operator may write the Assistant's status at any time, it
 * is repeated while the input is the one that the person saw.
 */
export async function bind(visit: Visit, view: AssistantView, key: string, doing: Doing): Promise<void> {
  const secretKeyRef = secretOf(view, key);
  let current = view;
  for (let tries = 1; ; tries += 1) {
    const metadata = recording(visit, current.metadata, doing);
    const body = { metadata, spec: { storedInputs: { [key]: { secretKeyRef } } } };
    const path = assistantPath(visit.names.namespace, view.metadata.name);
    try {
      await visit.ask({ method: 'PATCH', path, contentType: MERGE, body });
      return;
    } catch (error) {
      const isOlder = error instanceof KubernetesError && error.status === 409;
      if (!isOlder || tries === TRIES) throw unbound(error, secretKeyRef.name);
      current = await getAssistant(visit, view.metadata.name).catch((cause: unknown) => {
        throw unbound(cause, secretKeyRef.name);
      });
      if (!isAsSeen(visit, current, key)) throw unbound(error, secretKeyRef.name);
      // A colleague has entered the same input meanwhile.
      if (boundOf(current, key) !== undefined) return;
    }
  }
}

function isAsSeen({ form }: Visit, view: AssistantView, key: string): boolean {
  const input = inputOf(view, key);
  if (input === undefined) return false;
  const { definition, secret } = seenOf(view, key, input);
  return form.get('definition') === definition && form.get('secret') === secret;
}

/** What the person is told about a value that is stored. */
function unbound(error: unknown, secret: string): unknown {
  if (!(error instanceof KubernetesError)) return error;
  const { status, sentence } = error;
  if (status === 0 || status >= 500)
    return new PageError(
      503,
      'Stored, but perhaps not bound',
      `The value is in the Secret ${secret}. The API server did not confirm that the Assistant names it: open the Assistant again, and enter the value again if it is still missing.`,
      { cause: error },
    );
  const todo =
    status === 403
      ? 'This requires the verb deploy on the Capsule and get on that Secret.'
      : 'Open the Assistant again, and enter the value again if it is still missing.';
  return new PageError(
    status === 403 ? 403 : 409,
    'Stored, but not bound',
    `The value is in the Secret ${secret}; the Assistant does not name it yet. ${todo}`,
    { quoted: sentence, cause: error },
  );
}
