import { randomBytes } from 'node:crypto';
import { valueFault } from '@space/manifests';
import { Url } from '../html/url.ts';
import { type Outcome, PageError, Redirect } from '../http/outcome.ts';
import { apiPath, KubernetesError } from '../kubernetes/client.ts';
import { record } from '../kubernetes/record.ts';
import { type AssistantView, assistantPath } from '../kubernetes/space.ts';
import type { Route, Visit } from '../visit.ts';
import { assistantOf, assistantPage } from './assistant.ts';
import { bind } from './bind-input.ts';
import {
  boundOf,
  ENTERED_FOR,
  INPUT_TYPE,
  inputOf,
  isDuplicate,
  isOwnName,
  lastEntry,
  nameOfEntry,
  type StoredInput,
  secretOf,
  seenOf,
} from './stored-inputs.ts';

const CAPSULE_LABEL = 'platform.space/capsule';

export const storeInput: Route = {
  method: 'POST',
  path: '/capsules/:capsule/assistants/:assistant/inputs/:key',
  under: 'capsules',
  run: store,
};

/** Writes the value into its Secret, then sets the Secret's name in the Assistant; neither is read. */
async function store(visit: Visit): Promise<Outcome> {
  const view = await assistantOf(visit);
  const key = visit.params['key'] ?? '';
  const input = inputOf(view, key);
  if (input === undefined)
    throw new PageError(
      409,
      'The manifest has no such input',
      'Nothing was stored. Open the Assistant again.',
    );
  if (isDuplicate(view))
    throw new PageError(
      409,
      'Another Assistant has the same id',
      'The Secret has the value of that one. Nothing was stored: create this Assistant anew with an id of its own.',
    );
  const { definition } = requireSeen(visit, view, key, input);
  requireLast(visit, view, key);
  const value = visit.form.get('value') ?? '';
  const fault = valueFault(input, value);
  if (fault !== undefined)
    return assistantPage(visit, { key, says: `Nothing was stored: the value ${fault}.` });
  const bound = boundOf(view, key);
  const capsule = view.spec.capsule ?? '';
  const reference = secretOf(view, key);
  const secret = {
    ...{ capsule, ...reference, value: Buffer.from(value, 'utf8').toString('base64') },
    // The random part makes each entry different, so that the same value can be entered again.
    enteredFor: `${definition} ${randomBytes(12).toString('base64url')}`,
  };
  await stored(visit, secret, { isBound: bound !== undefined, isOwn: isOwnName(view, key, reference) });
  const doing = { act: 'input', what: key, generation: versionSeen(visit) } as const;
  if (bound === undefined) await bind(visit, view, key, doing);
  else await record(visit, assistantPath(visit.names.namespace, view.metadata.name), doing);
  return new Redirect(Url.path`/capsules/${capsule}/assistants/${view.metadata.name}`);
}

/** The version of the Assistant that the form showed, by which a form that is sent twice is one act. */
function versionSeen({ form }: Pick<Visit, 'form'>): number | undefined {
  const version = form.get('version') ?? '';
  return /^[0-9]{1,15}$/.test(version) ? Number(version) : undefined;
}

/** Refuses the value if the input has changed since the person saw it, since they agreed only to what they saw. */
function requireSeen({ form }: Visit, view: AssistantView, key: string, input: StoredInput) {
  const seen = seenOf(view, key, input);
  const advice = 'It was changed after you opened the page, so nothing was stored. Review it again.';
  if (form.get('definition') !== seen.definition)
    throw new PageError(409, 'The manifest now defines the input differently', advice);
  if (form.get('secret') !== seen.secret)
    throw new PageError(409, 'The Assistant now names another Secret', advice);
  return seen;
}

/**
 * Refuses a value that is older than what somebody else has entered: the form may be sent again long after its page was
 * opened. The person's own entry by this form does not count, since they may have gone back to correct it.
 */
function requireLast({ form, session }: Visit, view: AssistantView, key: string): void {
  const last = lastEntry(view, key);
  if (last === undefined || nameOfEntry(last) === form.get('entered')) return;
  if (last.by === session.user && last.generation === versionSeen({ form })) return;
  throw new PageError(
    409,
    'It was entered meanwhile',
    'Somebody has entered this input after you opened the page, so nothing was stored. The Assistant’s page says who, and replaces the value if you enter it there.',
  );
}

interface Stored {
  readonly capsule: string;
  readonly name: string;
  readonly key: string;
  /** Base64. */
  readonly value: string;
  readonly enteredFor: string;
}

/**
 * Stores the value whether its Secret is there or not: somebody may have deleted one that the Assistant names. It is made
 * again only under the name that it has from the console, so that an author makes nobody create a Secret of any name.
 */
async function stored(
  visit: Visit,
  secret: Stored,
  { isBound, isOwn }: { readonly isBound: boolean; readonly isOwn: boolean },
): Promise<void> {
  if (isBound && (await replaced(visit, secret))) return;
  if (isBound && !isOwn)
    throw new PageError(
      409,
      'The Secret does not exist',
      `The Assistant names the Secret ${secret.name}, which does not exist. Nothing was stored: create it again with kubectl.`,
    );
  if ((await created(visit, secret)) || (await replaced(visit, secret))) return;
  throw new PageError(
    409,
    'Somebody else changed it',
    'The Secret was created and deleted in the meantime. Nothing was stored: open the Assistant again.',
  );
}

/** Creates the Secret; returns false if there is one of its name. */
async function created(visit: Visit, { capsule, name, key, value, enteredFor }: Stored): Promise<boolean> {
  const body = {
    apiVersion: 'v1',
    kind: 'Secret',
    type: INPUT_TYPE,
    metadata: { name, labels: { [CAPSULE_LABEL]: capsule }, annotations: { [ENTERED_FOR]: enteredFor } },
    data: { [key]: value },
  };
  try {
    await visit.ask({
      method: 'POST',
      path: apiPath`/api/v1/namespaces/${visit.names.namespace}/secrets`,
      body,
    });
    return true;
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 409) return false;
    throw withoutSentence(error);
  }
}

/**
 * Replaces the whole content of the Secret, if it is a stored input of this Capsule; the API server checks that in the
 * same request. Returns false if there is none.
 */
async function replaced(visit: Visit, { capsule, name, key, value, enteredFor }: Stored): Promise<boolean> {
  const tests = [
    { op: 'test', path: '/type', value: INPUT_TYPE },
    { op: 'test', path: `/metadata/labels/${pointed(CAPSULE_LABEL)}`, value: capsule },
  ];
  const data = { op: 'add', path: '/data', value: { [key]: value } };
  const path = apiPath`/api/v1/namespaces/${visit.names.namespace}/secrets/${name}`;
  const patch = (...body: readonly object[]) =>
    visit.ask({ method: 'PATCH', path, contentType: 'application/json-patch+json', body });
  const annotations = '/metadata/annotations';
  try {
    const said = { op: 'add', path: `${annotations}/${pointed(ENTERED_FOR)}`, value: enteredFor };
    await patch(...tests, data, said).catch(async (error: unknown) => {
      if (!isUnprocessable(error)) throw error;
      // A JSON patch cannot add to absent annotations, so they are created first; existing ones stay.
      const none = { op: 'test', path: annotations, value: null };
      await patch(...tests, data, none, {
        op: 'add',
        path: annotations,
        value: { [ENTERED_FOR]: enteredFor },
      });
    });
    return true;
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return false;
    if (isUnprocessable(error))
      throw new PageError(
        409,
        'The Secret is not for this input',
        'The Secret that the Assistant names has another type, or belongs to another Capsule. It was not changed.',
        { cause: error },
      );
    throw withoutSentence(error);
  }
}

/** Escapes a key for a JSON pointer. */
const pointed = (key: string): string => key.replace('/', '~1');

const isUnprocessable = (error: unknown): boolean => error instanceof KubernetesError && error.status === 422;

/** Removes the API server's message, which may quote the value. */
function withoutSentence(error: unknown): unknown {
  if (!(error instanceof KubernetesError)) return error;
  return new KubernetesError(error.status, error.reason, error.status === 403 ? error.sentence : '');
}
