import { Url } from '../html/url.ts';
import { type Outcome, Redirect } from '../http/outcome.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { changeAndRecord } from '../kubernetes/record.ts';
import { capsuleIn, capsulePath } from '../kubernetes/space.ts';
import type { Route, Visit } from '../visit.ts';
import { capsulePage } from './capsule.ts';
import { QUOTA_KEYS, type QuotaKey, type QuotaProblem, seenName } from './quota-form.ts';

export const changeQuota: Route = {
  method: 'POST',
  path: '/capsules/:capsule/quota',
  under: 'capsules',
  run: change,
};

/** Changes a quota by the same patch as `kubectl`, with the person's rights; admission refuses what is not a quota. */
async function change(visit: Visit): Promise<Outcome> {
  const name = visit.params['capsule'] ?? '';
  const entered = QUOTA_KEYS.flatMap((key) => {
    const text = visit.form.get(key)?.trim() ?? '';
    // What somebody else changed since the page was shown must not be set back by a field that nobody touched.
    if (text === '' || text === visit.form.get(seenName(key))) return [];
    return [[key, key === 'assistants' && /^[0-9]{1,9}$/.test(text) ? Number(text) : text] as const];
  });
  if (entered.length === 0)
    return capsulePage(visit, name, { key: undefined, says: 'Enter at least one new limit.' });
  // Of the very version that is changed.
  const judge = (object: unknown) => {
    const { quota: current = {} } = capsuleIn(object).spec;
    const stale = entered.find(([key, value]) => {
      const [now, seen] = [String(current[key] ?? ''), visit.form.get(seenName(key))];
      return seen !== undefined && now !== seen && now !== String(value);
    });
    if (stale !== undefined) throw new StaleError(changed(stale, current));
  };
  try {
    const quota = Object.fromEntries(entered);
    await changeAndRecord(
      visit,
      capsulePath(visit.names.namespace, name),
      { act: 'quota' },
      { spec: { quota } },
      judge,
    );
  } catch (error) {
    if (error instanceof StaleError)
      return { ...(await capsulePage(visit, name, error.problem)), status: 409 };
    if (!isRefused(error)) throw error;
    return { ...(await capsulePage(visit, name, problemOf(error))), cause: error };
  }
  return new Redirect(Url.path`/capsules/${name}`);
}

/** Somebody else has changed a limit since the page was opened. */
class StaleError extends Error {
  override readonly name = 'StaleError';
  readonly problem: QuotaProblem;

  constructor(problem: QuotaProblem) {
    super('the quota is another one than on the page');
    this.problem = problem;
  }
}

/** The person did not see the limit that they would set back; on the page with this they do. */
const changed = (
  [key]: readonly [QuotaKey, unknown],
  current: Readonly<Partial<Record<QuotaKey, unknown>>>,
): QuotaProblem => ({
  key,
  says: `Somebody else has set this to ${current[key] ?? 'the Space’s default'} after you opened the page. Send the form again to set it nevertheless.`,
});

/** Whether the API server refused the entered value. */
const isRefused = (error: unknown): error is KubernetesError =>
  error instanceof KubernetesError && (error.status === 400 || error.status === 422);

/** The API server's message names the path of the field. */
const problemOf = ({ sentence }: KubernetesError): QuotaProblem => ({
  key: QUOTA_KEYS.find((key) => sentence.includes(`quota.${key}`)),
  says: sentence,
});
