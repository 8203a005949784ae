import type { CredentialRecord } from '@space/contracts/objectstore';
import { CredentialError } from '../broker/client.ts';
import { code, moment, state, table } from '../html/parts.ts';
import { html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { PageError } from '../http/outcome.ts';
import { mayOn, type SetsOf, type Visit } from '../visit.ts';
import type { CredentialOptions } from './credentials.ts';

/** Milliseconds that a page about something else waits for the broker. */
const WAIT_MS = 1_500;

/** Returns the credential sets of a Capsule for its page; undefined if the broker did not answer in time. */
export function setsOf({ broker, principalOf }: CredentialOptions, waitMs = WAIT_MS): SetsOf {
  return async (visit, capsule) => {
    const late = AbortSignal.timeout(waitMs);
    const waited = new Promise<undefined>((resolve) =>
      late.addEventListener('abort', () => resolve(undefined)),
    );
    const listed = principalOf(visit, capsule)
      .then((principal) => broker.call('capsule.credential.list', principal, { capsule_id: capsule }))
      .then(({ sets }) => sets)
      .catch(notNow);
    return Promise.race([listed, waited]);
  };
}

function notNow(error: unknown): undefined {
  if (error instanceof CredentialError || error instanceof PageError) return undefined;
  throw error;
}

/** Where a Capsule's files are stored, for people who may use its credentials. */
export async function setsSection(visit: Visit, capsule: string): Promise<Value> {
  if (visit.setsOf === undefined || !(await mayOn(visit, capsule, 'credentials'))) return '';
  const sets = await visit.setsOf(visit, capsule);
  const shown =
    sets === undefined
      ? html`<p class="quiet">The object-storage broker did not answer, so the credential sets are not known.</p>`
      : setsTable(sets);
  return html`<h2>Storage of its files</h2>${shown}<p><a href="${Url.path`/capsules/${capsule}/credentials`}">Its own keys for an S3 store</a></p>`;
}

function setsTable(sets: readonly CredentialRecord[]): Value {
  if (sets.length === 0)
    return html`<p>It has no credential set of its own: its objects are stored with the Space’s credential.</p>`;
  return table(
    ['Credential set', 'Location', 'Key', 'Last changed'],
    sets.map(
      ({ name, selected, endpoint_host, bucket, region, access_key_fingerprint, rotated_at, created_at }) => [
        html`${name} ${selected ? state('good', 'selected') : ''}`,
        html`${code(endpoint_host, 260)} ${bucket} (${region})`,
        code(access_key_fingerprint, 40),
        moment(rotated_at ?? created_at),
      ],
    ),
  );
}
