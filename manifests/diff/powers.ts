import type { Manifest } from '../rules/manifest.ts';

type StoredInput = NonNullable<Manifest['stored_inputs']>[string];
type Route = StoredInput['routes'][number];

/** Something that a new version may do and the old one could not. */
export interface Power {
  /** Where the new manifest says so. */
  readonly pointer: string;
  readonly says: string;
}

/** What a new version may do that the old one could not: hosts, scopes, stored inputs, and where they may go. */
export function newPowers(old: Manifest, next: Manifest): readonly Power[] {
  const identity =
    old.platform.id === next.platform.id
      ? []
      : [
          {
            pointer: '/platform/id',
            says: `is another Assistant: ${next.platform.id}, not ${old.platform.id}`,
          },
        ];
  return [...identity, ...newHosts(old, next), ...newScopes(old, next), ...newInputs(old, next)];
}

function newHosts(old: Manifest, next: Manifest): readonly Power[] {
  const known = new Set(old.network.allowed_hosts);
  return next.network.allowed_hosts.flatMap((host, index) =>
    known.has(host)
      ? []
      : [{ pointer: `/network/allowed_hosts/${index}`, says: `may reach the host ${host}` }],
  );
}

function newScopes(old: Manifest, next: Manifest): readonly Power[] {
  return Object.entries(next.integrations ?? {}).flatMap(([name, { scopes }]) => {
    const known = new Set(own(old.integrations, name)?.scopes);
    return scopes.flatMap((scope, index) =>
      known.has(scope)
        ? []
        : [
            {
              pointer: `/integrations/${name}/scopes/${index}`,
              says: `may use ${scope} of the integration ${name}`,
            },
          ],
    );
  });
}

function newInputs(old: Manifest, next: Manifest): readonly Power[] {
  return Object.entries(next.stored_inputs ?? {}).flatMap(([name, input]) => {
    const pointer = `/stored_inputs/${name}`;
    const before = own(old.stored_inputs, name);
    if (before === undefined) {
      const where = input.routes.map((route) => describe(route)).join(', ');
      return [{ pointer, says: `may use a new stored input ${name}, sent to ${input.host} on ${where}` }];
    }
    return [...newDestination(pointer, name, before, input), ...newRoutes(pointer, name, before, input)];
  });
}

/** A secret that goes to another host, or in another form, than people agreed to. */
function newDestination(
  pointer: string,
  name: string,
  before: StoredInput,
  input: StoredInput,
): readonly Power[] {
  const slot = ({ header, query, scheme }: StoredInput) =>
    header === undefined
      ? `the query parameter ${query}`
      : `the header ${header}${scheme ? ` (${scheme})` : ''}`;
  const signing = ({ hmac }: StoredInput) => (hmac === undefined ? 'is sent itself' : `signs as ${hmac}`);
  return [
    ...(before.host === input.host
      ? []
      : [{ pointer: `${pointer}/host`, says: `sends ${name} to ${input.host} instead of ${before.host}` }]),
    ...(slot(before) === slot(input)
      ? []
      : [{ pointer, says: `puts ${name} into ${slot(input)} instead of ${slot(before)}` }]),
    ...(signing(before) === signing(input)
      ? []
      : [
          {
            pointer,
            says: `uses ${name} in another way: it ${signing(input)}; before, it ${signing(before)}`,
          },
        ]),
  ];
}

function newRoutes(pointer: string, name: string, before: StoredInput, input: StoredInput): readonly Power[] {
  // If the host changed, every route is new, and the change of host says so already.
  if (before.host !== input.host) return [];
  return input.routes.flatMap((route, index) =>
    before.routes.some((known) => covers(known, route))
      ? []
      : [{ pointer: `${pointer}/routes/${index}`, says: `may send ${name} on ${describe(route)}` }],
  );
}

/** Whether every request that fits one route fits another too; when in doubt, no. */
export function covers(wide: Route, narrow: Route): boolean {
  if (wide.method !== narrow.method) return false;
  const [w, n] = [wide.path.split('/'), narrow.path.split('/')];
  if (w.length !== n.length || !w.every((segment, index) => segment === '*' || segment === n[index]))
    return false;
  return (wide.query ?? []).every((selector) =>
    (narrow.query ?? []).some(
      ({ name, values }) =>
        name === selector.name && values.every((value) => selector.values.includes(value)),
    ),
  );
}

function describe({ method, path, query = [] }: Route): string {
  const selectors = query.map(({ name, values }) => `${name}=${values.join('|')}`).join('&');
  return `${method} ${path}${selectors === '' ? '' : `?${selectors}`}`;
}

const own = <T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined =>
  record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
