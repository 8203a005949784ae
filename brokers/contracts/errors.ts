/** The error codes of all wires, with their HTTP status; there are no others. */
export const STATUS = {
  invalid_request: 400,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  stale_generation: 409,
  already_exists: 409,
  credential_selected: 409,
  stale_grant: 409,
  length_required: 411,
  precondition_failed: 412,
  too_large: 413,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  verification_failed: 422,
  rate_limited: 429,
  internal: 500,
  upstream_failed: 502,
  unavailable: 503,
  custody_unavailable: 503,
  custody_rollback: 503,
  upstream_timeout: 504,
  quota_exceeded: 507,
} as const;

export type ErrorCode = keyof typeof STATUS;

/** The failed check of a candidate, sent with `verification_failed`; there are no others. */
export const VERIFICATION_CHECKS = ['unreachable', 'tls', 'auth', 'permission', 'bucket', 'timeout'] as const;
export type VerificationCheck = (typeof VERIFICATION_CHECKS)[number];
