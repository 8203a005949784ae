import { isDeepStrictEqual } from 'node:util';
import { type Finding, no } from './conditions.ts';
import type { Context } from './context.ts';
import { CONFIG_MAP, type ConfigMap } from './kinds.ts';
import { LABEL, policiesName, type SpaceNames } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import { ApiError } from './runtime/errors.ts';
import { Kept } from './runtime/kept.ts';
import { type KubeObject, pathOf, type Resource } from './runtime/kube-object.ts';
import { together } from './runtime/together.ts';

const at = (plural: string, kind: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});
export const POLICY = at('validatingadmissionpolicies', 'ValidatingAdmissionPolicy');
export const POLICY_BINDING = at('validatingadmissionpolicybindings', 'ValidatingAdmissionPolicyBinding');

/** Assistants that are scheduled at the same time share one check, and an idle operator makes none. */
const FRESH_MS = 5_000;

type Names = Pick<SpaceNames, 'space' | 'systemNamespace'>;

interface Judge extends KubeObject {
  readonly spec: unknown;
}

/** The spec of each policy and binding as the chart recorded it, by the name of the object. */
type Specs = Readonly<Record<string, unknown>>;

/**
 * Returns a check that asks the API server itself whether every admission policy and binding of the release is as the
 * release has it. The check returns a finding about the first one that is not, and undefined if all are.
 */
export function admissionLook(
  { client, names }: { readonly client: ApiClient; readonly names: Names },
  now: () => number,
): Context['admission'] {
  const kept = new Kept<Finding | undefined>(now);
  return (signal) => kept.get('all', FRESH_MS, (whole) => findGap(client, names, whole), signal);
}

async function findGap(
  client: ApiClient,
  { space, systemNamespace }: Names,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  const ask = <T>(path: string, query: Readonly<Record<string, string>> = {}) =>
    client.call<T>({ method: 'GET', path, query, signal }).catch((error: unknown) => {
      if (error instanceof ApiError && (error.status === 404 || error.status === 403)) return error;
      throw error;
    });
  const read = <T>(resource: Resource, name: string, namespace?: string) =>
    ask<T>(pathOf(resource, namespace, name));
  // Two lists cost the API server a tenth of a GET for each name. A policy that has lost its label is missing from the
  // list, and so counts as missing.
  const list = async (resource: Resource): Promise<ReadonlyMap<string, Judge>> => {
    const labelSelector = `${LABEL.space}=${space}`;
    const found = await ask<{ readonly items: readonly Judge[] }>(pathOf(resource), { labelSelector });
    const items = found instanceof ApiError ? [] : found.items;
    return new Map(items.map((item) => [item.metadata.name, item]));
  };
  const written = await read<ConfigMap>(CONFIG_MAP, policiesName(space), systemNamespace);
  if (written instanceof ApiError) return gap(CONFIG_MAP, policiesName(space), whyUnread(written));
  const wishes = [POLICY, POLICY_BINDING].map((resource) => ({
    resource,
    specs: Object.entries(specsIn(written, resource)),
  }));
  if (wishes.some(({ specs }) => specs.length === 0))
    return gap(CONFIG_MAP, policiesName(space), 'does not list them');
  const gaps = await together(
    wishes.map(async ({ resource, specs }) => {
      const labelled = await list(resource);
      return together(
        specs.map(async ([name, spec]) => {
          const live = labelled.get(name) ?? (await read<Judge>(resource, name));
          if (live instanceof ApiError) return gap(resource, name, whyUnread(live));
          if (live.metadata.deletionTimestamp !== undefined) return gap(resource, name, 'is being deleted');
          return isSame(spec, live.spec)
            ? undefined
            : gap(resource, name, 'differs from that of the release');
        }),
      );
    }),
  );
  return gaps.flat().find((one) => one !== undefined);
}

const whyUnread = ({ status }: ApiError) =>
  status === 404 ? 'does not exist' : 'may not be read by the operator';

function gap({ kind }: Resource, name: string, what: string): Finding {
  return no(
    'PolicyNotInForce',
    `${kind} "${name}" ${what}, so nothing new is scheduled until it is restored; running Assistants continue. Repair the release with helm upgrade; scheduling then resumes by itself.`,
  );
}

function specsIn({ data = {} }: ConfigMap, { kind }: Resource): Specs {
  try {
    return (JSON.parse(data['specs'] ?? '{}') as Readonly<Record<string, Specs>>)[kind] ?? {};
  } catch {
    return {};
  }
}

/** Compares two specs after each field that the API server fills in has been set in both. */
const isSame = (wish: unknown, live: unknown) =>
  isDeepStrictEqual(withoutDefaults(wish), withoutDefaults(live));

const DEFAULTS: Readonly<Record<string, string>> = {
  failurePolicy: 'Fail',
  matchPolicy: 'Equivalent',
  scope: '*',
};

function withoutDefaults(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDefaults);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, item]) => DEFAULTS[key] !== item)
      .map(([key, item]) => [key, withoutDefaults(item)])
      .filter(([, item]) => !isEmpty(item)),
  );
}

/** An empty selector selects everything, just as an absent one does. */
const isEmpty = (value: unknown) =>
  value === null || value === '' || (typeof value === 'object' && Object.keys(value).length === 0);
