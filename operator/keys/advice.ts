import { ApiError } from '../runtime/errors.ts';

/** Tells a person what to do about a failed run; the API server's message names the missing right. */
export function adviceOn(error: unknown): string {
  if (error instanceof ApiError && error.status === 403)
    return 'The API server does not let the keys’ account do this. Put its Roles back with helm upgrade, or mend the policy that says so; the next run goes on.';
  if (error instanceof ApiError && error.status === 401)
    return 'The API server does not know the keys’ account any more. Put its ServiceAccount back with helm upgrade; the next run goes on.';
  return 'Ended before everything was looked at; the next run goes on.';
}
