import type { Secret } from '@space/broker-kit';
import type { CredentialRecord } from '@space/contracts/objectstore';
import { isFieldValue } from '../../manifests/driver/formats.ts';
import type { CredentialForm } from '../../manifests/driver/objectstore.ts';
import { type CredentialBroker, CredentialError } from '../broker/client.ts';
import { card, kubectl, moment, state, table } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { type Outcome, type Page, PageError, Redirect } from '../http/outcome.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { type Doing, type Done, doneOn, record } from '../kubernetes/record.ts';
import { capsulePath, getCapsule } from '../kubernetes/space.ts';
import { postForm, type Route, type Visit } from '../visit.ts';
import { changesSince, type Inventory, nameSeen, seenOf } from './credential-changes.ts';
import { createForm, type Field, fieldInput, hidden, inputOf, key } from './credential-form.ts';
import { type Problem, problemOf } from './credential-problems.ts';

export interface CredentialOptions {
  readonly broker: CredentialBroker;
  /** Refuses a person without the verb `credentials` on the Capsule. */
  readonly principalOf: (visit: Visit, capsule: string) => Promise<Secret<string>>;
}

/** The page when the sets cannot be shown; it still reports the result of an earlier act. */
function unseen(cause: unknown, problem: Problem | undefined): never {
  if (!(cause instanceof CredentialError)) throw cause;
  const { status, says } = problem ?? problemOf(cause);
  const advice = problem === undefined && cause.code === 'unavailable' ? 'Try again in a moment.' : says;
  throw new PageError(status, 'The credential sets cannot be shown now', advice, { cause });
}

const under = 'capsules';
const root = '/capsules/:capsule/credentials';

/** The five operations on a Capsule's own credentials, as pages. */
export function credentialRoutes(options: CredentialOptions): readonly Route[] {
  const { broker } = options;
  return [
    { method: 'GET', path: root, under, run: (visit) => page(options, visit) },
    act(options, 'create', async (visit, capsule_id, principal) => {
      const name = nameOf(visit);
      const expected_inventory_generation = generation(visit);
      const body = { capsule_id, name, expected_inventory_generation, ...(await candidate(broker, visit)) };
      const answer = await broker.call('capsule.credential.create', principal, body);
      return { act: 'created', what: name, generation: answer.inventory_generation };
    }),
    act(options, 'rotate', async (visit, capsule_id, principal) => {
      const body = {
        capsule_id,
        set_id: setOf(visit),
        expected_generation: generation(visit),
        ...(await candidate(broker, visit)),
      };
      const answer = await broker.call('capsule.credential.rotate', principal, body);
      return { act: 'rotated', what: seen(visit), generation: answer.inventory_generation };
    }),
    act(options, 'select', async (visit, capsule_id, principal) => {
      const expected_inventory_generation = generation(visit);
      const set_id = setOf(visit) === '' ? null : setOf(visit);
      const body = { capsule_id, set_id, expected_inventory_generation };
      const answer = await broker.call('capsule.credential.select', principal, body);
      // The generation is unchanged, so it was selected already.
      if (answer.inventory_generation === expected_inventory_generation) return undefined;
      const done =
        set_id === null ? { act: 'deselected' as const } : { act: 'selected' as const, what: seen(visit) };
      return { ...done, generation: answer.inventory_generation };
    }),
    act(options, 'delete', async (visit, capsule_id, principal) => {
      const body = { capsule_id, set_id: setOf(visit), expected_generation: generation(visit) };
      const answer = await broker.call('capsule.credential.delete', principal, body);
      if (answer.already_absent === true) return undefined;
      return { act: 'deleted', what: seen(visit), generation: answer.inventory_generation };
    }),
  ];
}

/**
 * Performs an act, records the person on the Capsule, and shows the list again; a refusal is shown at its field or at
 * the top.
 */
function act(
  options: CredentialOptions,
  name: string,
  run: (visit: Visit, capsule: string, principal: Secret<string>) => Promise<Doing | undefined>,
): Route {
  return {
    method: 'POST',
    path: `${root}/${name}`,
    under,
    async run(visit): Promise<Outcome> {
      const capsule = capsuleOf(visit);
      const principal = await options.principalOf(visit, capsule);
      try {
        const doing = await run(visit, capsule, principal);
        if (doing !== undefined) await record(visit, capsulePath(visit.names.namespace, capsule), doing);
      } catch (error) {
        if (error instanceof CredentialError)
          return { ...(await page(options, visit, problemOf(error))), cause: error };
        if (error instanceof FieldError) return page(options, visit, error.problem);
        throw error;
      }
      return new Redirect(Url.path`/capsules/${capsule}/credentials`);
    },
  };
}

async function page(
  { broker, principalOf }: CredentialOptions,
  visit: Visit,
  problem?: Problem,
): Promise<Page> {
  const capsule = capsuleOf(visit);
  const principal = await principalOf(visit, capsule);
  const [form, list] = await Promise.all([
    broker.form(),
    broker.call('capsule.credential.list', principal, { capsule_id: capsule }),
  ]).catch((cause) => unseen(cause, problem));
  const main = html`<p class="lead">This Capsule’s own keys for an S3 store. A key is verified before it is stored, and never shown again.</p>
${problem === undefined ? '' : card('bad', html`<p class="problem" role="alert">${problem.field !== undefined && visit.form.has('name') ? 'Nothing was saved. The problem is shown at its field below.' : problem.says}</p>${problem.isStale === true ? changesSince(visit.form, list, await doneWith(visit, capsule)) : ''}`)}
<h2>Sets</h2>${setsTable(visit, capsule, form, list)}
<h2>New set</h2>${createForm(visit, capsule, { form, seen: html`${hidden('generation', list.inventory_generation)}${seenOf(list)}`, problem })}
${kubectl(`kubectl -n ${visit.names.namespace} get capsule ${capsule} -o yaml`, '# Credential sets are no Kubernetes resource: docs/custody.md describes their API.')}`;
  return {
    title: `Credentials of ${capsule}`,
    main,
    trail: [
      { to: Url.path`/capsules`, says: 'Capsules' },
      { to: Url.path`/capsules/${capsule}`, says: capsule },
    ],
    ...(problem === undefined ? {} : { status: problem.status }),
  };
}

/** Returns the recorded acts, as far as the person may see them. */
const doneWith = (visit: Visit, capsule: string): Promise<readonly Done[] | undefined> =>
  getCapsule(visit, capsule)
    .then(({ metadata }) => doneOn(metadata))
    .catch(notSeen);

function notSeen(error: unknown): undefined {
  if (!(error instanceof KubernetesError)) throw error;
}

const capsuleOf = ({ params }: Visit) => params['capsule'] ?? '';

const generation = ({ form }: Visit) => {
  const text = form.get('generation') ?? '';
  if (!/^[0-9]{1,15}$/.test(text))
    throw new PageError(400, 'The form cannot be read', 'Open its page again.');
  return Number(text);
};
const setOf = ({ form }: Visit) => form.get('set_id') ?? '';
const seen = ({ form }: Visit) => nameSeen(form, form.get('set_id') ?? '');

function nameOf({ form }: Visit): string {
  const name = form.get('name') ?? '';
  if (!/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) || name.length > 64)
    throw new FieldError(
      'name',
      'A name consists of lowercase letters, digits and single hyphens, and begins with a letter.',
    );
  return name;
}

async function candidate(broker: CredentialBroker, visit: Visit) {
  const [form] = (await broker.form()).forms;
  return {
    form_version: 1 as const,
    fields: valuesOf(visit, form.fields) as never,
    idempotency_key: visit.form.get('idempotency_key') ?? '',
  };
}

/** A value that the form does not accept, found before anything is sent. */
class FieldError extends Error {
  override readonly name = 'FieldError';
  readonly problem: Problem;

  constructor(field: string, says: string) {
    super(`the field ${field} is not in its format`);
    this.problem = { field, says, status: 422 };
  }
}

function valuesOf({ form }: Visit, fields: readonly Field[]): Record<string, string> {
  return Object.fromEntries(
    fields.map((field) => {
      const value = form.get(inputOf(field)) ?? '';
      if (!isFieldValue(value, field))
        throw new FieldError(
          field.id,
          `${field.label}: the format is wrong, or the length is not ${field.min} to ${field.max} characters.`,
        );
      return [field.id, value];
    }),
  );
}

function setsTable(visit: Visit, capsule: string, form: CredentialForm, list: Inventory): Html {
  if (list.sets.length === 0)
    return html`<p>There is none: objects are stored with the Space’s own credential.</p>`;
  const rows = list.sets.map((set) => [
    html`${set.name} ${set.selected ? state('good', 'selected') : ''}`,
    html`<code>${set.endpoint_host}</code><div>${set.bucket} (${set.region})</div>`,
    html`<code>${set.access_key_fingerprint}</code>`,
    html`${set.generation}, verified ${moment(set.verified_at)}${set.rotated_at === null ? '' : html`, rotated ${moment(set.rotated_at)}`}`,
    html`<div class="acts">${choose(visit, capsule, list, set)}${remove(visit, capsule, list, set)}</div>${rotate(visit, capsule, { form, list, set })}`,
  ]);
  return table(['Set', 'Location', 'Key', 'Generation', 'Actions'], rows);
}

const choose = (visit: Visit, capsule: string, list: Inventory, set: CredentialRecord): Html =>
  postForm(
    visit,
    Url.path`/capsules/${capsule}/credentials/select`,
    html`${hidden('generation', list.inventory_generation)}${seenOf(list)}${hidden('set_id', set.selected ? '' : set.set_id)}<button class="plain">${set.selected ? 'Select none' : 'Select'}</button>`,
  );

const remove = (visit: Visit, capsule: string, list: Inventory, set: CredentialRecord): Value =>
  set.selected
    ? ''
    : postForm(
        visit,
        Url.path`/capsules/${capsule}/credentials/delete`,
        html`${hidden('generation', set.generation)}${seenOf(list)}${hidden('set_id', set.set_id)}<button class="grave">Delete</button>`,
      );

/** A rotation keeps endpoint and bucket, since other data under the same name would be another set. */
function rotate(
  visit: Visit,
  capsule: string,
  {
    form,
    list,
    set,
  }: { readonly form: CredentialForm; readonly list: Inventory; readonly set: CredentialRecord },
): Html {
  const kept: Readonly<Record<string, string>> = {
    'https-origin': `https://${set.endpoint_host}`,
    's3-bucket': set.bucket,
    's3-region': set.region,
    's3-addressing': set.addressing,
  };
  const inputs = form.forms[0].fields.map((field) =>
    field.secret
      ? fieldInput(field, { prefix: set.set_id })
      : hidden(inputOf(field), kept[field.format] ?? ''),
  );
  const content = html`${hidden('generation', set.generation)}${seenOf(list)}${hidden('set_id', set.set_id)}${key()}${inputs}<button class="plain">Verify and rotate</button>`;
  return html`<details><summary>Rotate</summary>${postForm(visit, Url.path`/capsules/${capsule}/credentials/rotate`, content)}</details>`;
}
