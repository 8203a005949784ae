import { digestOf, newToken, type Secret, type TokenDigest } from '@space/broker-kit';
import { type Session, toServiceError } from '@space/broker-kit/postgres';
import type { PlaceNames } from './names.ts';

/** An Assistant that proved who it is, and all that it may touch. */
interface WorkloadIdentity {
  readonly capsule: string;
  readonly app: string;
  readonly digest: TokenDigest;
  /** In the Space's bucket, each a prefix that ends in `/`: the logical buckets, and the Capsule that both lie in. */
  readonly places: { readonly data: string; readonly shared: string; readonly capsule: string };
  /** Bytes that the Capsule may hold in all. */
  readonly quotaBytes: number;
}

export type AuthenticateWorkload = (
  token: Secret<string> | undefined,
) => Promise<WorkloadIdentity | undefined>;

/** Looked up instead of a credential that is missing, so that a refusal costs the same work as any other. */
const NOBODY = newToken('osw');

/** Undefined is the one refusal: missing, unknown, retired, or of a Capsule that is being dropped. */
export function authenticateWorkload(
  lookup: Session,
  places: PlaceNames,
  defaultQuotaBytes: number,
): AuthenticateWorkload {
  return async (token) => {
    const digest = digestOf(token ?? NOBODY);
    try {
      const [row] = await lookup.run<{
        capsule: string;
        app: string;
        place: string;
        within: string;
        quota: string | null;
      }>(
        'find workload',
        `SELECT w.capsule_id AS capsule, w.app_id AS app, w.place, s.place AS within, s.quota_bytes AS quota
         FROM broker.workload w JOIN broker.store s USING (capsule_id) WHERE w.principal = $1`,
        [digest],
      );
      if (row === undefined || token === undefined) return undefined;
      const { capsule, app, place, within, quota } = row;
      return {
        capsule,
        app,
        digest,
        places: { data: place, shared: places.shared(within), capsule: within },
        quotaBytes: quota === null ? defaultQuotaBytes : Number(quota),
      };
    } catch (error) {
      // Without the registry nobody can be let in; who brought nothing can still be turned away.
      if (token === undefined) return undefined;
      throw toServiceError(error);
    }
  };
}
