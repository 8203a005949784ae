import { refusal } from '@space/broker-kit';
import type { GrantClaims, GrantOperation } from '../../../../manifests/driver/grant.ts';
import type { Bucket } from '../../objects/prefix.ts';

/** One thing that a request is about to do. */
export interface Need {
  readonly operation: GrantOperation;
  readonly bucket: Bucket;
  /** The key; of a list its prefix. */
  readonly path: string;
}

/** Throws the one refusal unless a single entry of the grant allows exactly this. */
export function demand({ allow }: Pick<GrantClaims, 'allow'>, need: Need): void {
  const allowed = allow.some(
    ({ bucket, prefix, operations }) =>
      bucket === need.bucket && operations.includes(need.operation) && need.path.startsWith(prefix),
  );
  if (!allowed) throw refusal();
}
