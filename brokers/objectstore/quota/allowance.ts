import { randomBytes } from 'node:crypto';
import { type Logger, ServiceError } from '@space/broker-kit';
import { CapsuleBlock, type Reservation } from './capsule-block.ts';
import { adoptDeadBlocks, type Registry, renewBlocks } from './rows.ts';

export interface Quota {
  /** Throws `quota_exceeded` when the Capsule has no room for so many bytes. */
  reserve(capsule: Capsule, bytes: number): Promise<Reservation>;
  /** Was so little left when this replica last asked that what ends should stop counting at once? Undefined when it did not. */
  isShort(capsulePrefix: string): boolean | undefined;
  /** One round of upkeep: tells what was written, gives back what is idle, renews, adopts blocks of dead replicas. */
  tick(): Promise<void>;
  close(): Promise<void>;
}

export interface Capsule {
  /** What the keys of all its objects begin with in its present incarnation. */
  readonly capsulePrefix: string;
  readonly quotaBytes: number;
}

export interface QuotaOptions {
  readonly registry: Registry;
  readonly log: Logger;
  /** Counts a Capsule anew; true when it did, and the refused may ask again. */
  readonly recount: (capsule: Capsule, flush: () => Promise<void>) => Promise<boolean>;
  /** Somebody was refused, or nobody learns whether a write is stored. */
  readonly onEvent?: (event: 'refused' | 'doubted') => void;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number;
}

const IDLE_MS = 30_000;
/** A replica that could not renew for so long forgets its blocks, well before others take it for dead. */
const LOST_MS = 120_000;
const DEAD_SECONDS = 300;
/** After it an upstream that gave no answer cannot store any more what it was sent. */
export const UNANSWERED_SECONDS = 3_600;

/** The blocks under one name of this replica. When they may be lost, all is begun anew under another. */
interface Lease {
  readonly replica: string;
  readonly blocks: Map<string, CapsuleBlock>;
  renewedAt: number;
}

export function createQuota(options: QuotaOptions): Quota {
  const { registry, log, recount, onEvent = () => undefined, now = () => performance.now() } = options;
  const onDoubted = () => onEvent('doubted');
  let lease = begin();

  function begin(): Lease {
    return { replica: randomBytes(8).toString('hex'), blocks: new Map(), renewedAt: now() };
  }

  /** Begins anew, unless somebody has: the blocks of a lease that was lost are left to whoever adopts them. */
  function lose(lost: Lease): void {
    if (lease === lost) lease = begin();
  }

  const isLost = ({ renewedAt }: Lease) => now() - renewedAt > LOST_MS;

  function giveUp(lost: Lease, why: string): void {
    log.warn({ why }, 'quota blocks begun anew');
    lose(lost);
  }

  function blockOf({ replica, blocks }: Lease, capsulePrefix: string): CapsuleBlock {
    const known = blocks.get(capsulePrefix);
    if (known !== undefined) return known;
    const block = new CapsuleBlock({ registry, replica, capsulePrefix, onDoubted, now });
    blocks.set(capsulePrefix, block);
    return block;
  }

  async function reserve(capsule: Capsule, bytes: number): Promise<Reservation> {
    for (let attempt = 1; ; attempt += 1) {
      // Also before the next tick: a process that was stopped goes on with its requests first.
      if (isLost(lease)) giveUp(lease, 'could not renew');
      const mine = lease;
      const block = blockOf(mine, capsule.capsulePrefix);
      const reservation = block.reserve(bytes);
      if (reservation !== undefined) return reservation;
      if (await block.take(capsule.quotaBytes, bytes)) {
        const taken = block.reserve(bytes);
        if (taken !== undefined) return taken;
        // Others ran between the take and this line, and have found the bytes first.
        continue;
      }
      const again = attempt === 1 && (await recount(capsule, () => flush(mine, block)));
      if (again) continue;
      onEvent('refused');
      throw new ServiceError('quota_exceeded', 'no room left for the Capsule');
    }
  }

  async function flush(mine: Lease, block: CapsuleBlock, giveBack = false): Promise<void> {
    if (!(await block.flush({ giveBack }))) lose(mine);
  }

  async function tick(): Promise<void> {
    const mine = lease;
    await renew(mine);
    for (const [capsulePrefix, block] of mine.blocks) {
      const idle = block.isIdle(IDLE_MS);
      await flush(mine, block, idle);
      if (idle && block.bytes === 0) mine.blocks.delete(capsulePrefix);
    }
    await adoptDeadBlocks(registry.lookup, DEAD_SECONDS, UNANSWERED_SECONDS);
  }

  async function renew(mine: Lease): Promise<void> {
    if (isLost(mine)) return giveUp(mine, 'could not renew');
    const begun = now();
    const there = await renewBlocks(registry.lookup, mine.replica);
    mine.renewedAt = begun;
    for (const [capsulePrefix, block] of mine.blocks)
      if (!there.has(capsulePrefix) && block.bytes > 0 && !block.isUnsure)
        return giveUp(mine, 'a block is gone');
  }

  return {
    reserve,
    isShort: (capsulePrefix) => lease.blocks.get(capsulePrefix)?.isShort,
    tick,
    close: async () => {
      const mine = lease;
      lease = begin();
      for (const block of mine.blocks.values()) await flush(mine, block, true);
    },
  };
}
