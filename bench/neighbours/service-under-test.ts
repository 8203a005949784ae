import type { Act } from './acts.ts';
import type { Habit } from './quiet.ts';

/** A service as in its pod, the habits of a quiet tenant, and the acts of a hostile one. */
export interface ServiceUnderTest {
  readonly habits: readonly Habit[];
  /** Acts by name; each begins on an idle service. Signed ones are created when they begin. */
  readonly hostile: Readonly<Record<string, readonly Act[] | (() => Promise<readonly Act[]>)>>;
  /** The same without the service in between, if that is possible. */
  readonly straight?: Straight;
  /** Waits until nothing of the hostile acts is left. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

/** The same tenants, connected directly to the server behind the service. */
export interface Straight {
  /** One for each habit of the service, in the same order. */
  readonly habits: readonly Habit[];
  /** By the same names, for acts that have a counterpart. */
  readonly hostile: Readonly<Record<string, () => readonly Act[]>>;
  close(): Promise<void>;
}

export type OpenServiceUnderTest = () => Promise<ServiceUnderTest>;

/** The address of the hostile tenant. Each address stands for a pod; the quiet tenant has 127.0.0.1. */
export const HOSTILE = '127.0.0.2';
/** The address of a pod without any credential. */
export const STRANGER = '127.0.0.3';
/** Addresses of more pods than the Capsules of one tenant may have. */
export const MANY_ADDRESSES: readonly string[] = Array.from({ length: 16 }, (_, i) => `127.0.0.${i + 10}`);
