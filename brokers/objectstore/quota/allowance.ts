import { randomBytes } from 'node:crypto';
import { type Logger, ServiceError } from '@space/broker-kit';
import {
  addDoubt,
  addWritten,
  adoptDeadBlocks,
  changeBlock,
  isShort,
  lockUsage,
  type Registry,
  renewBlocks,
  usedBytes,
} from './rows.ts';

/** Bytes that were reserved for one write. Exactly one of its ends is called, once; later calls do nothing. */
export interface Hold {
  /** The write is stored. */
  settle(): void;
  /** Nothing was stored, and nothing will be. */
  release(): void;
  /** Nobody knows: they count until a count has looked that began after so many seconds, when it will be certain. */
  doubt(seconds: number): void;
  /** The bytes are a part of an open upload now, whose row counts them. */
  move(): Promise<void>;
}

export interface Quota {
  /** Throws `quota_exceeded` when the Capsule has no room for so many bytes. */
  reserve(capsule: Capsule, bytes: number): Promise<Hold>;
  /** Was so little left when this replica last asked that what ends should stop counting at once? Undefined when it did not. */
  isShort(place: string): boolean | undefined;
  /** One round of upkeep: tells what was written, gives back what is idle, renews, buries the dead. */
  tick(): Promise<void>;
  close(): Promise<void>;
}

export interface Capsule {
  /** The prefix of all its objects in its present life. */
  readonly place: string;
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

/** How much a replica takes ahead, so that small writes need no word with the registry. */
const BLOCK = 64 * 1024 * 1024;
/** Of what is left, no more than this share is taken ahead: other replicas need room too. */
const SHARE = 16;
const IDLE_MS = 30_000;
/** A replica that could not renew for so long forgets its blocks, well before others take it for dead. */
const LOST_MS = 120_000;
const DEAD_SECONDS = 300;
/** After it an upstream that gave no answer cannot store any more what it was sent. */
export const UNANSWERED_SECONDS = 3_600;

/** One Capsule's block of this replica; the row's bytes are the sum of the four. */
interface Account {
  unspent: number;
  inFlight: number;
  spent: number;
  short: boolean;
  /** By the seconds after which it will be certain. */
  doubted: Map<number, number>;
  usedAt: number;
  /** Takes, one after the other. */
  turn: Promise<unknown>;
}

/** The blocks under one name. When they may be lost, all is begun anew under another. */
interface Books {
  readonly replica: string;
  readonly accounts: Map<string, Account>;
  renewedAt: number;
}

export function createQuota(options: QuotaOptions): Quota {
  const { registry, log, recount, onEvent = () => undefined, now = () => performance.now() } = options;
  let books = open();

  function open(): Books {
    return { replica: randomBytes(8).toString('hex'), accounts: new Map(), renewedAt: now() };
  }

  function account(capsule: string): Account {
    const known = books.accounts.get(capsule);
    if (known !== undefined) return known;
    const fresh = {
      unspent: 0,
      inFlight: 0,
      spent: 0,
      short: false,
      doubted: new Map(),
      usedAt: now(),
      turn: Promise.resolve(),
    };
    books.accounts.set(capsule, fresh);
    return fresh;
  }

  /** One registry transaction about an account at a time, so that its numbers and its row agree. */
  function inTurn<T>(one: Account, work: () => Promise<T>): Promise<T> {
    const next = one.turn.then(work, work);
    one.turn = next.catch(() => undefined);
    return next;
  }

  async function reserve(capsule: Capsule, bytes: number): Promise<Hold> {
    for (let attempt = 1; ; attempt += 1) {
      const mine = books;
      const one = account(capsule.place);
      one.usedAt = now();
      if (one.unspent >= bytes) return hold(mine, capsule.place, one, bytes);
      const got = await inTurn(one, () => take(mine, capsule, one, bytes));
      if (got) {
        // Others may have run between the take and this line, and have found the bytes first.
        if (one.unspent >= bytes) return hold(mine, capsule.place, one, bytes);
        continue;
      }
      const again = attempt === 1 && (await recount(capsule, () => flush(mine, capsule.place, one)));
      if (again) continue;
      onEvent('refused');
      throw new ServiceError('quota_exceeded', 'no room left for the Capsule');
    }
  }

  async function take(mine: Books, capsule: Capsule, one: Account, bytes: number): Promise<boolean> {
    if (one.unspent >= bytes) return true;
    const { spent } = one;
    const need = bytes - one.unspent;
    const granted = await registry.transaction(async (session) => {
      await lockUsage(session, capsule.place);
      const left = capsule.quotaBytes - (await usedBytes(session, capsule.place));
      one.short = isShort(capsule.quotaBytes, left - need, bytes);
      if (left < need) return undefined;
      const grant = Math.min(left, need + Math.min(BLOCK, Math.floor((left - need) / SHARE)));
      await addWritten(session, capsule.place, spent);
      await changeBlock(session, capsule.place, mine.replica, grant);
      if (spent > 0) await changeBlock(session, capsule.place, mine.replica, -spent);
      return grant;
    });
    if (granted === undefined) return false;
    one.unspent += granted;
    one.spent -= spent;
    return true;
  }

  /** Tells the registry what was written; `giveBack` are bytes that are not needed any more. */
  function flush(mine: Books, capsule: string, one: Account, giveBack = 0): Promise<void> {
    one.unspent -= giveBack;
    return inTurn(one, async () => {
      const { spent } = one;
      const doubted = [...one.doubted];
      const told = spent + sumOf(doubted);
      if (told + giveBack === 0) return;
      try {
        const there = await registry.transaction(async (session) => {
          await lockUsage(session, capsule);
          const shrunk = await changeBlock(session, capsule, mine.replica, -(told + giveBack));
          if (!shrunk) return false;
          await addWritten(session, capsule, spent);
          for (const [seconds, bytes] of doubted) await addDoubt(session, capsule, bytes, seconds);
          return true;
        });
        // A block that is gone was adopted: its bytes are counted already.
        if (!there) {
          if (books === mine) books = open();
          return;
        }
        one.spent -= spent;
        for (const [seconds, bytes] of doubted) {
          const left = (one.doubted.get(seconds) ?? 0) - bytes;
          if (left > 0) one.doubted.set(seconds, left);
          else one.doubted.delete(seconds);
        }
      } catch (error) {
        one.unspent += giveBack;
        throw error;
      }
    });
  }

  function hold(mine: Books, capsule: string, one: Account, bytes: number): Hold {
    one.unspent -= bytes;
    one.inFlight += bytes;
    let open = true;
    const end = (act: () => void) => {
      if (!open) return;
      open = false;
      one.inFlight -= bytes;
      one.usedAt = now();
      act();
    };
    return {
      settle: () =>
        end(() => {
          one.spent += bytes;
        }),
      release: () =>
        end(() => {
          one.unspent += bytes;
        }),
      doubt: (seconds) =>
        end(() => {
          onEvent('doubted');
          one.doubted.set(seconds, (one.doubted.get(seconds) ?? 0) + bytes);
        }),
      move: async () => {
        if (!open) return;
        await inTurn(one, () =>
          registry.transaction(async (session) => {
            await lockUsage(session, capsule);
            await changeBlock(session, capsule, mine.replica, -bytes);
          }),
        );
        end(() => undefined);
      },
    };
  }

  async function tick(): Promise<void> {
    const mine = books;
    await renew(mine);
    for (const [capsule, one] of mine.accounts) {
      const idle = one.inFlight === 0 && now() - one.usedAt > IDLE_MS;
      await flush(mine, capsule, one, idle ? one.unspent : 0);
      if (idle && bytesOf(one) === 0) mine.accounts.delete(capsule);
    }
    await adoptDeadBlocks(registry.lookup, DEAD_SECONDS, UNANSWERED_SECONDS);
  }

  async function renew(mine: Books): Promise<void> {
    const lost = (why: string) => {
      log.warn({ why }, 'quota blocks begun anew');
      if (books === mine) books = open();
    };
    if (now() - mine.renewedAt > LOST_MS) return lost('could not renew');
    const begun = now();
    const there = await renewBlocks(registry.lookup, mine.replica);
    mine.renewedAt = begun;
    for (const [capsule, one] of mine.accounts)
      if (!there.has(capsule) && bytesOf(one) > 0) return lost('a block is gone');
  }

  return {
    reserve,
    isShort: (place) => books.accounts.get(place)?.short,
    tick,
    close: async () => {
      const mine = books;
      books = open();
      for (const [capsule, one] of mine.accounts) await flush(mine, capsule, one, one.unspent);
    },
  };
}

function bytesOf({ unspent, inFlight, spent, doubted }: Account): number {
  return unspent + inFlight + spent + sumOf([...doubted]);
}

function sumOf(doubted: readonly (readonly [seconds: number, bytes: number])[]): number {
  return doubted.reduce((sum, [, bytes]) => sum + bytes, 0);
}
