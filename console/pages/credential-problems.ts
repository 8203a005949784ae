import type { CredentialError } from '../broker/client.ts';

/** What a page says about a refusal, at which field, and with which status. */
export interface Problem {
  readonly field?: string;
  readonly says: string;
  readonly status: number;
  /** Whether somebody else has changed the sets since the person saw them. */
  readonly isStale?: boolean;
}

const CHECKS: Readonly<Record<NonNullable<CredentialError['check']>, Problem>> = {
  unreachable: {
    field: 'endpoint',
    says: 'The endpoint does not answer, or it is not allowed.',
    status: 422,
  },
  tls: { field: 'endpoint', says: 'The certificate of the endpoint is not trusted.', status: 422 },
  timeout: { field: 'endpoint', says: 'The endpoint took too long to answer.', status: 422 },
  auth: { field: 'access-key-id', says: 'The store does not accept this key.', status: 422 },
  permission: { field: 'access-key-id', says: 'The key may not read and write in this bucket.', status: 422 },
  bucket: { field: 'bucket', says: 'There is no such bucket for this key.', status: 422 },
};

const CODES: Partial<Record<CredentialError['code'], Problem>> = {
  invalid_request: {
    says: 'The broker does not accept this. A rotation cannot change endpoint and bucket.',
    status: 422,
  },
  already_exists: { field: 'name', says: 'A set with this name already exists.', status: 409 },
  stale_generation: {
    says: 'Somebody changed the sets after you opened the page, so your change was not made. The form contains what you entered, except keys.',
    status: 409,
    isStale: true,
  },
  conflict: {
    says: 'This form was sent before with other values. Nothing was changed this time.',
    status: 409,
  },
  credential_selected: {
    says: 'A selected set cannot be deleted. Select another one, or none, first.',
    status: 409,
  },
  not_found: { says: 'This set no longer exists.', status: 404 },
  quota_exceeded: { says: 'The Capsule has as many sets as it may have. Delete one first.', status: 422 },
  rate_limited: { says: 'Too many keys were verified. Try again in a minute.', status: 429 },
  custody_unavailable: { says: 'The stored sets cannot be verified; see docs/custody.md.', status: 503 },
  custody_rollback: {
    says: 'The registry was set back to an older state; see docs/custody.md.',
    status: 503,
  },
};

const UNAVAILABLE: Problem = {
  says: 'The object-storage broker is unavailable. It is not known whether the change took effect: open the page again.',
  status: 503,
};

/** A fixed sentence for each refusal, without any text of the broker or the store. */
export function problemOf({ code, check }: Pick<CredentialError, 'code' | 'check'>): Problem {
  if (code === 'verification_failed' && check !== undefined) return CHECKS[check];
  return CODES[code] ?? UNAVAILABLE;
}
