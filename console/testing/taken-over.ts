import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Secret } from '@space/broker-kit';
import fc from 'fast-check';
import { credentialBroker } from '../broker/client.ts';
import { errorBody, explain } from '../http/errors.ts';
import { Redirect } from '../http/outcome.ts';
import { UNSEEN } from '../machinery/machinery.ts';
import { credentialRoutes } from '../pages/credentials.ts';
import type { Visit } from '../visit.ts';

/** A canary with the length and alphabet of an S3 key. */
export const CANARY = 'C4NARYwJalrXUtnFEMIK7MDENGbPxRfiCYKEY9az';

const DOCUMENT = new URL('../../manifests/driver/objectstore-credentials.json', import.meta.url);
const FORM: unknown = JSON.parse(readFileSync(DOCUMENT, 'utf8'));

export const RECORD = {
  set_id: `ocs_${'a'.repeat(22)}`,
  name: 'archive',
  form_version: 1,
  generation: 1,
  selected: false,
  endpoint_host: 's3.bank.org',
  region: 'eu-1',
  bucket: 'bucket',
  addressing: 'path',
  access_key_fingerprint: 'fp_0123456789abcdef',
  verified_at: '2026-11-22T20:00:00.000Z',
  created_at: '2026-11-22T20:00:00.000Z',
  rotated_at: null,
  state: 'active',
};
const TRACE = { trace_id: 'a'.repeat(32) };
export const WHOLE: Replies = {
  form: FORM,
  list: { inventory_generation: 1, selected: null, sets: [RECORD], ...TRACE },
  act: { ...RECORD, inventory_generation: 2, ...TRACE },
  status: 200,
};
const REFUSAL = { error: { code: 'verification_failed', check: 'auth' }, ...TRACE };

/** What the broker answers to each kind of question. */
export interface Replies {
  readonly form: unknown;
  readonly list: unknown;
  readonly act: unknown;
  readonly status: number;
}

/** The canary, as it is, within other text, and as what is not a text. */
const canary = fc.oneof(
  fc.constant<unknown>(CANARY),
  fc.constant({ [CANARY]: CANARY }),
  fc.constant([CANARY]),
  fc.tuple(fc.string({ maxLength: 20 }), fc.string({ maxLength: 20 })).map((at) => at.join(CANARY)),
);

/** The document with the canary in one place, or in a new one beside what is there. */
function poisoned(document: unknown): fc.Arbitrary<unknown> {
  const places = [...placesOf(document)];
  return fc
    .tuple(fc.constantFrom(...places), canary, fc.constantFrom('', 'secret_access_key', CANARY))
    .map(([place, value, more]) => put(document, more === '' ? place : [...place.slice(0, -1), more], value));
}

type Place = readonly string[];

function* placesOf(value: unknown, at: Place = []): Generator<Place> {
  if (at.length > 0) yield at;
  if (typeof value !== 'object' || value === null) return;
  for (const [key, one] of Object.entries(value)) yield* placesOf(one, [...at, key]);
}

function put(value: unknown, [key, ...rest]: Place, what: unknown): unknown {
  if (key === undefined) return what;
  if (Array.isArray(value))
    return value.map((one, index) => (String(index) === key ? put(one, rest, what) : one));
  const known = typeof value === 'object' && value !== null ? value : {};
  return { ...known, [key]: put((known as Readonly<Record<string, unknown>>)[key], rest, what) };
}

export const replies: fc.Arbitrary<Replies> = fc.oneof(
  poisoned(WHOLE.form).map((form) => ({ ...WHOLE, form })),
  poisoned(WHOLE.list).map((list) => ({ ...WHOLE, list })),
  poisoned(WHOLE.act).map((act) => ({ ...WHOLE, act })),
  fc
    .tuple(poisoned(REFUSAL), fc.constantFrom(400, 403, 409, 422, 429, 500, 503))
    .map(([act, status]) => ({ ...WHOLE, act, status })),
);

/** What the person sends with each act. */
export const FIELDS: Readonly<Record<string, string>> = {
  name: 'archive',
  generation: '1',
  set_id: RECORD.set_id,
  idempotency_key: 'k'.repeat(32),
  'field-endpoint': 'https://s3.bank.org',
  'field-region': 'eu-1',
  'field-bucket': 'bucket',
  'field-addressing': 'path',
  'secret-access-key-id': 'AKIAIOSFODNN7EXAMPLE',
  'secret-secret-access-key': 'a-secret-of-the-person-that-is-long-enough',
};

export const acts = fc.constantFrom('look', 'create', 'rotate', 'select', 'delete');

/** A broker with given answers, and the console's pages of it for a person with all rights. */
export async function startTakenOver() {
  let told = WHOLE;
  const server = createServer((request, response) => {
    request.resume();
    const path = request.url ?? '';
    const isAct = request.method === 'POST' && !path.endsWith('/list');
    response.writeHead(isAct ? told.status : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(request.method === 'GET' ? told.form : isAct ? told.act : told.list));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const broker = credentialBroker({ url: `http://127.0.0.1:${port}` });
  const routes = credentialRoutes({ broker, principalOf: async () => new Secret('of-a-capsule') });
  const names = {
    space: 'home',
    namespace: 'home',
    systemNamespace: 's',
    servicesNamespace: 'v',
    hasObjectStore: true,
  };
  const session = { id: 'x', proof: { token: new Secret('x') }, user: 'x', formKey: 'x', ends: 0 };
  const form = new Map(Object.entries(FIELDS));
  const visit: Visit = {
    ...{ session, names, form, params: { capsule: 'household' }, query: new URLSearchParams() },
    callsOf: undefined,
    machineryOf: async () => UNSEEN,
    ask: async () => ({ metadata: { name: 'household' } }),
    now: () => new Date(0),
    list: async () => ({ rows: [], isCut: false }),
    may: async () => true,
  };
  return {
    /** What a person would be sent. */
    async sent(act: string, answers: Replies): Promise<string> {
      told = answers;
      const route = routes.find(({ method, path }) =>
        act === 'look' ? method === 'GET' : path.endsWith(`/${act}`),
      );
      if (route === undefined) throw new Error(`no page does ${act}`);
      try {
        const outcome = await route.run(visit);
        if (outcome instanceof Redirect) return outcome.to.text;
        return 'main' in outcome ? `${outcome.title} ${outcome.main}` : outcome.name;
      } catch (error) {
        const told = explain(error);
        return `${told.title} ${errorBody(told, 'a'.repeat(32), names)}`;
      }
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
