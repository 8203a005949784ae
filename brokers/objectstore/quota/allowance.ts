import { randomBytes } from 'node:crypto';
import { type Logger, ServiceError } from '@space/broker-kit';
import { CapsuleBlock, type Reservation } from './capsule-block.ts';
import { adoptDeadBlocks, type Registry, renewBlocks } from './rows.ts';

export interface Quota {
  /** Reserves bytes for a write. @throws ServiceError `quota_exceeded` if the Capsule's quota has no room for them */
  reserve(capsule: Capsule, bytes: number): Promise<Reservation>;
  /**
   * Whether so little was left at the last request that deleted objects should stop counting at once; undefined before
   * the first one.
   */
  isShort(capsulePrefix: string): boolean | undefined;
  /**
   * One round of upkeep: stores what was written, returns what is unused, renews its blocks, and adopts those of dead
   * replicas.
   */
  tick(): Promise<void>;
  close(): Promise<void>;
}

export interface Capsule {
  /** The prefix of all its objects in the present incarnation. */
  readonly capsulePrefix: string;
  readonly quotaBytes: number;
}

export interface QuotaOptions {
  readonly registry: Registry;
  readonly log: Logger;
  /** Counts a Capsule's objects. Resolves with true if the count is new, so that a refused request may be repeated. */
  readonly recount: (capsule: Capsule, flush: () => Promise<void>) => Promise<boolean>;
  /** Called when a write is refused, or when it is unknown whether one is stored. */
  readonly onEvent?: (event: 'refused' | 'doubted') => void;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
}

const IDLE_MS = 30_000;
/** After this many milliseconds without a renewal a replica forgets its blocks, well before others take it for dead. */
const LOST_MS = 120_000;
const DEAD_SECONDS = 300;
/** Seconds after which an upstream that gave no answer can no longer store what it was sent. */
export const UNANSWERED_SECONDS = 3_600;

/** The blocks under one name of this replica. If they may be lost, it continues under another name. */
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

  /** Starts a new lease, unless another caller has; the blocks of the old one are left to be adopted. */
  function lose(lost: Lease): void {
    if (lease === lost) lease = begin();
  }

  const isLost = ({ renewedAt }: Lease) => now() - renewedAt > LOST_MS;

  function giveUp(lost: Lease, why: string): void {
    log.warn({ why }, 'quota blocks were reserved anew');
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
        // Concurrent requests took the bytes first.
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
        return giveUp(mine, 'a block no longer exists');
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
