import type { Act } from './acts.ts';
import type { Habit } from './quiet.ts';

/** A service as its pod runs it, a quiet tenant of it, and what a hostile one may do to it. */
export interface ServiceUnderTest {
  readonly habits: readonly Habit[];
  /** Acts by name; each begins alone, on a service at rest. Those that are signed are made when they begin. */
  readonly hostile: Readonly<Record<string, readonly Act[] | (() => Promise<readonly Act[]>)>>;
  /** The same past the service, where that is possible. */
  readonly straight?: Straight;
  /** What hostile acts left is taken away. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

/** The quiet tenant and the hostile one at the server that the service stands before. */
export interface Straight {
  /** The same number as those of the service, in their order. */
  readonly habits: readonly Habit[];
  /** The same names, for acts that have a counterpart. */
  readonly hostile: Readonly<Record<string, () => readonly Act[]>>;
  close(): Promise<void>;
}

export type OpenServiceUnderTest = () => Promise<ServiceUnderTest>;

/** Where hostile tenants come from: each address is a pod of its own, the quiet one's is 127.0.0.1. */
export const HOSTILE = '127.0.0.2';
/** A pod without any credential. */
export const STRANGER = '127.0.0.3';
/** More pods than the Capsules of one tenant may have. */
export const MANY_ADDRESSES: readonly string[] = Array.from({ length: 16 }, (_, i) => `127.0.0.${i + 10}`);
