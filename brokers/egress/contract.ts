import { isId, SIGNING_PROFILES, valueFault } from '@space/manifests';
import { z } from 'zod';
import { parseAuthority } from './core/authority.ts';
import { METHODS } from './core/route.ts';

/** The wire between operator and gateway: one closed schema for each request and answer. */

const id = z.string().max(40).refine(isId, 'not an id');
const identifier = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/);
const uid = z.string().regex(/^[A-Za-z0-9-]{1,64}$/);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const host = z.string().refine((text) => parseAuthority(`${text}:443`) === text, 'not a canonical host name');
const parameter = z.string().regex(/^[A-Za-z0-9._~-]{1,64}$/);

const route = z.strictObject({
  method: z.enum(METHODS),
  path: z
    .string()
    .max(512)
    .regex(/^(?:\/(?:\*|(?!\.\.?(?:\/|$))[A-Za-z0-9._~-]{1,64}))+$/),
  query: z
    .array(
      z.strictObject({
        name: parameter,
        values: z
          .array(z.string().regex(/^(?:[A-Za-z0-9._~-]|%[0-9A-F]{2}){1,256}$/))
          .min(1)
          .max(16),
      }),
    )
    .min(1)
    .max(8)
    .exactOptional(),
});

/** What a manifest says of where a stored input goes; the texts about it are not part of it. */
const definition = z
  .strictObject({
    host,
    routes: z.array(route).min(1).max(32),
    header: z
      .string()
      .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/)
      .exactOptional(),
    query: parameter.exactOptional(),
    scheme: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9-]{0,31}$/)
      .exactOptional(),
    hmac: z.enum(SIGNING_PROFILES).exactOptional(),
  })
  .refine(
    (input) => (input.header === undefined) !== (input.query === undefined) && !(input.scheme && input.query),
    'exactly one of header and query, and a scheme only with a header',
  );

const assistant = { capsule_id: id, app_id: id, assistant_uid: uid };
const envelope = z.string().min(1).max(16_384);
const traceId = z.string().regex(/^[0-9a-f]{32}$/);
/** Random for each start of a replica: another one has forgotten everything. */
const instance = z.string().regex(/^[0-9a-f]{32}$/);

const policy = z.strictObject({
  ...assistant,
  /** `metadata.generation` of the Assistant: an older one never replaces a newer one. */
  generation: z.int().min(0),
  /** Names this content; it is what replicas acknowledge. */
  revision: sha256,
  /** SHA-256 of each egress principal that is valid now; two while one is replaced. */
  principals: z.array(sha256).min(1).max(2),
  /** Of the Assistant's pods. */
  addresses: z.array(z.string().max(64)).max(1_000),
  allowed_hosts: z.array(host).max(32),
  stored_inputs: z.record(identifier, z.strictObject({ definition, envelope })),
});

export const CONTRACT = {
  'policy.put': {
    path: '/v1/policies/put',
    request: policy,
    response: z.strictObject({
      revision: sha256,
      /** Stored inputs whose value was entered for another definition, and so cannot be used. */
      reentry: z.array(identifier),
      /** New envelopes of those that were sealed under a key which is to be retired. */
      resealed: z.record(identifier, envelope),
      instance,
      trace_id: traceId,
    }),
  },
  'policy.narrow': {
    path: '/v1/policies/narrow',
    request: z.strictObject({
      ...assistant,
      generation: z.int().min(0),
      allowed_hosts: z.array(host).max(32),
      /** SHA-256 of the definitions that may stay, by key. */
      stored_inputs: z.record(identifier, sha256),
    }),
    response: z.strictObject({ narrowed: z.boolean(), instance, trace_id: traceId }),
  },
  'policy.remove': {
    path: '/v1/policies/remove',
    request: z.strictObject(assistant),
    response: z.strictObject({ removed: z.boolean(), instance, trace_id: traceId }),
  },
  'input.suspended': {
    path: '/v1/inputs/suspended',
    request: z.strictObject(assistant),
    response: z.strictObject({
      /** Stored inputs whose host told their value in so many answers that it is not used any more. */
      suspended: z.array(identifier),
      instance,
      trace_id: traceId,
    }),
  },
  'input.seal': {
    path: '/v1/inputs/seal',
    request: z
      .strictObject({ ...assistant, input: identifier, definition, value: z.string().min(1).max(4_096) })
      .refine((input) => valueFault(input.definition, input.value) === undefined, 'not a fit value'),
    response: z.strictObject({ envelope, trace_id: traceId }),
  },
  'replica.state': {
    path: '/v1/replicas/state',
    request: z.strictObject({}),
    response: z.strictObject({ in_step: z.boolean(), instance, trace_id: traceId }),
  },
  'replica.in_step': {
    path: '/v1/replicas/in-step',
    /** The start that was told of every Assistant: a later one was not. */
    request: z.strictObject({ instance }),
    response: z.strictObject({ instance, trace_id: traceId }),
  },
} as const satisfies Record<string, { path: `/v1/${string}`; request: z.ZodType; response: z.ZodType }>;

export type OperationName = keyof typeof CONTRACT;
export type RequestOf<Name extends OperationName> = z.infer<(typeof CONTRACT)[Name]['request']>;
export type AnswerOf<Name extends OperationName> = Omit<
  z.infer<(typeof CONTRACT)[Name]['response']>,
  'trace_id'
>;
export type PolicyPut = RequestOf<'policy.put'>;

export const OPERATIONS = Object.keys(CONTRACT) as readonly OperationName[];
