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
    says: 'Nothing answers at this endpoint, or it may not be reached.',
    status: 422,
  },
  tls: { field: 'endpoint', says: 'The endpoint has no certificate that is to be believed.', status: 422 },
  timeout: { field: 'endpoint', says: 'The endpoint took too long to answer.', status: 422 },
  auth: { field: 'access-key-id', says: 'The store does not take this key.', status: 422 },
  permission: { field: 'access-key-id', says: 'The key may not read and write in this bucket.', status: 422 },
  bucket: { field: 'bucket', says: 'There is no such bucket for this key.', status: 422 },
};

const CODES: Partial<Record<CredentialError['code'], Problem>> = {
  invalid_request: {
    says: 'The broker does not take this. A rotation keeps endpoint and bucket.',
    status: 422,
  },
  already_exists: { field: 'name', says: 'A set of this name is there already.', status: 409 },
  stale_generation: {
    says: 'Somebody changed the sets since you looked, so nothing was changed by you. What you entered is there again, but for keys.',
    status: 409,
    isStale: true,
  },
  conflict: {
    says: 'This form was sent before with other values. Nothing was changed by this one.',
    status: 409,
  },
  credential_selected: {
    says: 'A set that is selected cannot be deleted. Select another one, or none, before.',
    status: 409,
  },
  not_found: { says: 'This set is there no more.', status: 404 },
  quota_exceeded: { says: 'The Capsule has as many sets as it may have. Delete one before.', status: 422 },
  rate_limited: { says: 'Too many keys were tried out. Wait a minute.', status: 429 },
  custody_unavailable: { says: 'The kept sets cannot be believed; see docs/custody.md.', status: 503 },
  custody_rollback: { says: 'The registry was set back; see docs/custody.md.', status: 503 },
};

const AWAY: Problem = {
  says: 'The object-storage broker is away. It is not known whether the change took effect: look again.',
  status: 503,
};

/** A fixed sentence for each refusal, without any text of the broker or the store. */
export function problemOf({ code, check }: Pick<CredentialError, 'code' | 'check'>): Problem {
  if (code === 'verification_failed' && check !== undefined) return CHECKS[check];
  return CODES[code] ?? AWAY;
}
