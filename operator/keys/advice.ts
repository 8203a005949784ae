import { ApiError } from '../runtime/errors.ts';

/** Tells a person what to do about a failed run; the API server's message names the missing right. */
export function adviceOn(error: unknown): string {
  if (error instanceof ApiError && error.status === 403)
    return 'The API server does not let the keys’ account do this. Restore its Roles with helm upgrade, or fix the policy that refuses it; the next run continues.';
  if (error instanceof ApiError && error.status === 401)
    return 'The API server does not know the keys’ account any more. Restore its ServiceAccount with helm upgrade; the next run continues.';
  return 'The run ended before it had checked everything; the next run continues.';
}
