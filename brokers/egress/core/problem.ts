/**
 * Every refusal of the gateway, with its HTTP status. The codes are part of the wire and never change their meaning.
 */
const STATUS = {
  invalid_request: 400,
  ambiguous_target: 400,
  slot_conflict: 400,
  forbidden: 403,
  host_denied: 403,
  address_denied: 403,
  route_denied: 403,
  plain_http_denied: 403,
  input_suspended: 403,
  not_found: 404,
  credential_required: 407,
  method_not_allowed: 405,
  request_timeout: 408,
  length_required: 411,
  too_large: 413,
  header_too_large: 431,
  rate_limited: 429,
  internal: 500,
  name_unresolved: 502,
  upstream_failed: 502,
  upstream_untrusted: 502,
  response_unscannable: 502,
  unavailable: 503,
  input_unavailable: 503,
  upstream_timeout: 504,
} as const;

/** Why a tunnel ends after its 200. It is in logs and metrics, and the client gets a TLS alert. */
export type TunnelFault =
  | 'not_tls'
  | 'hello_timeout'
  | 'hello_too_large'
  | 'hello_fragmented'
  | 'hello_malformed'
  | 'sni_mismatch'
  | 'ech_denied';

export type ProblemCode = keyof typeof STATUS;

/** A refusal with its code; message and cause are only logged. */
export class Problem extends Error {
  readonly code: ProblemCode;
  /** Seconds after which a further attempt may succeed. */
  readonly retryAfter: number | undefined;
  /** A sentence for the caller about what it sent, which repeats none of it. */
  readonly detail: string | undefined;

  constructor(code: ProblemCode, options: { cause?: unknown; retryAfter?: number; detail?: string } = {}) {
    super(code, 'cause' in options ? { cause: options.cause } : {});
    this.name = 'Problem';
    this.code = code;
    this.retryAfter = options.retryAfter;
    this.detail = options.detail;
  }

  get status(): number {
    return STATUS[this.code];
  }
}

const POLICY = new Set<ProblemCode>([
  'ambiguous_target',
  'slot_conflict',
  'forbidden',
  'host_denied',
  'address_denied',
  'route_denied',
  'plain_http_denied',
  'input_suspended',
]);

/**
 * The body of RFC 9457, with the `error` member that every service of a Space has. It repeats nothing of the request.
 */
export function problemBody({ code, detail }: Problem, traceId: string): string {
  const policy = POLICY.has(code);
  return JSON.stringify({
    type: `urn:platform-space:egress:${code}`,
    title: policy
      ? 'Blocked by platform policy; do not retry by another way.'
      : 'The request could not be carried out.',
    status: STATUS[code],
    ...(detail === undefined ? {} : { detail }),
    code,
    error: { code },
    trace_id: traceId,
  });
}
