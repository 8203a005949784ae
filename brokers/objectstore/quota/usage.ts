import type { Session } from '@space/broker-kit/postgres';
import { usedBytes } from './rows.ts';

/** What counts against a Capsule's quota now: also what is in doubt, and what replicas have taken ahead. */
export interface Usage {
  readonly used_bytes: number;
  readonly quota_bytes: number;
  readonly open_uploads: number;
}

export async function usageOf(session: Session, place: string, quotaBytes: number): Promise<Usage> {
  const used = await usedBytes(session, place);
  const [row] = await session.run<{ uploads: number }>(
    'count uploads',
    'SELECT count(*)::float8 AS uploads FROM broker.object_upload WHERE place = $1',
    [place],
  );
  return { used_bytes: used, quota_bytes: quotaBytes, open_uploads: row?.uploads ?? 0 };
}
