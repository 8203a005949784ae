import { LONGEST_VALUE, SIGNING_PROFILES, valueFault } from '@space/manifests';
import * as z from 'zod';
import type { AnswerOf, Contract, RequestOf } from './contract.ts';
import { id, traceId } from './fields.ts';

/** The wire of the egress gateway: for the operator, and for the console, which only reads. */

/** Methods of requests that may carry a stored input. */
export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** A host that may be dialled: two or more LDH labels in lower case, none of them looking like an address. */
export const CANONICAL_HOST =
  /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

const identifier = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/);
const uid = z.string().regex(/^[A-Za-z0-9-]{1,64}$/);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const host = z.string().regex(CANONICAL_HOST, 'not a canonical host name');
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

/** Where a stored input goes according to a manifest, without the texts for people. */
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
/** The addresses of the Assistant's pods. */
const addresses = z.array(z.string().max(64)).max(1_000);
/** A random identifier of a replica's process; another process has no policies. */
const instance = z.string().regex(/^[0-9a-f]{32}$/);

/** What an Assistant may do, and how it proves itself. */
const content = {
  /** Identifies this content; replicas acknowledge it. */
  revision: sha256,
  /** SHA-256 of each valid egress principal; two during an exchange. */
  principals: z.array(sha256).min(1).max(2),
  allowed_hosts: z.array(host).max(32),
  stored_inputs: z.record(identifier, z.strictObject({ definition, envelope })),
};

const policy = z.strictObject({
  ...assistant,
  /** `metadata.generation` of the Assistant: an older policy never replaces a newer one. */
  generation: z.int().min(0),
  ...content,
  addresses,
});

/**
 * How a tunnel or request ended, as in its log line. `ok` and `ended` (by a policy that no longer permits it) are not
 * refusals in docs/wire/egress.md.
 */
export const ENDINGS = [
  'ok',
  'ended',
  'invalid_request',
  'ambiguous_target',
  'slot_conflict',
  'forbidden',
  'host_denied',
  'address_denied',
  'route_denied',
  'plain_http_denied',
  'input_suspended',
  'not_found',
  'credential_required',
  'method_not_allowed',
  'request_timeout',
  'length_required',
  'too_large',
  'header_too_large',
  'rate_limited',
  'internal',
  'name_unresolved',
  'upstream_failed',
  'upstream_untrusted',
  'response_unscannable',
  'unavailable',
  'input_unavailable',
  'upstream_timeout',
  'not_tls',
  'hello_timeout',
  'hello_too_large',
  'hello_fragmented',
  'hello_malformed',
  'sni_mismatch',
  'ech_denied',
] as const;
export type Ending = (typeof ENDINGS)[number];

/** The state of a call: open, or how it ended. */
export type CallState = 'open' | Ending;

/** The most rows of an Assistant's calls in a replica: to hosts of its policy, to others, and of open calls. */
export const MOST_CALLS = { known: 192, others: 32, open: 64 } as const;

const calls = z.strictObject({
  /** Absent if the request did not name a host on port 443. */
  host: host.exactOptional(),
  /** The stored input, if the request was for one. */
  input: identifier.exactOptional(),
  ending: z.enum(['open', ...ENDINGS]),
  count: z.int().min(1),
  last_at: z.iso.datetime(),
});

export const EGRESS = {
  title: 'Egress gateway of a Space',
  audiences: { provisioner: 'prv', observer: 'obs' },
  documents: {},
  operations: {
    'policy.put': {
      path: '/v1/policies/put',
      authority: 'provisioner',
      summary: "Replace the replica's policy of an Assistant with a complete one",
      errors: ['conflict', 'stale_generation'],
      request: policy,
      response: z.strictObject({
        revision: sha256,
        /** Stored inputs whose value was entered for another definition, so that they cannot be used. */
        reentry: z.array(identifier),
        /** New envelopes for those that are sealed with a key that will be retired. */
        resealed: z.record(identifier, envelope),
        instance,
        trace_id: traceId,
      }),
    },
    'policy.narrow': {
      path: '/v1/policies/narrow',
      authority: 'provisioner',
      summary: 'Remove at once what an Assistant may no longer do, and follow its pods',
      errors: ['conflict', 'stale_generation'],
      request: z.strictObject({
        ...assistant,
        generation: z.int().min(0),
        allowed_hosts: z.array(host).max(32),
        /** SHA-256 of the definitions that stay permitted, by key. */
        stored_inputs: z.record(identifier, sha256),
        /** Those of now, since pods are replaced meanwhile; if absent, the policy keeps those that it has. */
        addresses: addresses.exactOptional(),
        /**
         * What the running pods were given, for a replica that has no policy of the Assistant, as after a restart. It takes
         * of it what this message permits.
         */
        running: z.strictObject(content).exactOptional(),
      }),
      response: z.strictObject({ narrowed: z.boolean(), instance, trace_id: traceId }),
    },
    'policy.remove': {
      path: '/v1/policies/remove',
      authority: 'provisioner',
      summary: 'Remove an Assistant permanently',
      errors: [],
      request: z.strictObject(assistant),
      response: z.strictObject({ removed: z.boolean(), instance, trace_id: traceId }),
    },
    'input.suspended': {
      path: '/v1/inputs/suspended',
      authority: 'provisioner',
      summary: 'Report which stored inputs are suspended because their hosts returned the values',
      errors: [],
      request: z.strictObject(assistant),
      response: z.strictObject({
        /** Stored inputs that are suspended, since their host has returned the value in too many answers. */
        suspended: z.array(identifier),
        instance,
        trace_id: traceId,
      }),
    },
    'input.seal': {
      path: '/v1/inputs/seal',
      authority: 'provisioner',
      summary: 'Seal a value for exactly one definition',
      errors: [],
      request: z
        .strictObject({
          ...assistant,
          input: identifier,
          definition,
          value: z.string().min(1).max(LONGEST_VALUE),
        })
        .refine((input) => valueFault(input.definition, input.value) === undefined, 'not a fit value'),
      response: z.strictObject({ envelope, trace_id: traceId }),
    },
    'calls.tell': {
      path: '/v1/calls',
      authority: 'observer',
      summary: 'Report how often an Assistant called which host, and with which result',
      errors: [],
      request: z.strictObject(assistant),
      response: z.strictObject({
        calls: z.array(calls).max(MOST_CALLS.known + MOST_CALLS.others + MOST_CALLS.open),
        /** Calls whose row was removed for another one. */
        forgotten: z.int().min(0),
        /** When the replica began to count; counts are only in memory. */
        since: z.iso.datetime(),
        instance,
        trace_id: traceId,
      }),
    },
    'replica.state': {
      path: '/v1/replicas/state',
      authority: 'provisioner',
      summary: 'Report the start of the replica, and whether it has the policies of all Assistants',
      errors: [],
      request: z.strictObject({}),
      response: z.strictObject({ in_step: z.boolean(), instance, trace_id: traceId }),
    },
    'replica.in_step': {
      path: '/v1/replicas/in-step',
      authority: 'provisioner',
      summary: 'Confirm to this start of the replica that it has the policies of all Assistants',
      errors: ['conflict'],
      /** Names the process that has the policies of all Assistants, since a later process does not. */
      request: z.strictObject({ instance }),
      response: z.strictObject({ instance, trace_id: traceId }),
    },
  },
  meanings: {
    409: 'A later message was heard before this one, or another start of the replica is meant.',
  },
  /** The largest manifest that an API server stores is 1,000,000 bytes; its policy is smaller. */
  longest: { request: 2 * 1024 * 1024, answer: 256 * 1024 },
} as const satisfies Contract;

type Requests = { readonly [Name in keyof typeof EGRESS.operations]: RequestOf<typeof EGRESS, Name> };
export type PolicyPut = Requests['policy.put'];
export type InputSeal = Requests['input.seal'];
export type PolicyNarrow = Requests['policy.narrow'];
/** The Assistant that a message is about. */
export type About = Requests['policy.remove'];
export type Calls = AnswerOf<typeof EGRESS, 'calls.tell'>;
export type PolicyTaken = Omit<AnswerOf<typeof EGRESS, 'policy.put'>, 'trace_id'>;
