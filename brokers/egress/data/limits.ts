/** What one Assistant may use of the gateway, and how long anything may take. Bytes, milliseconds. */
export interface DataLimits {
  /** Of one address, used or not. */
  readonly connections: number;
  readonly tunnels: number;
  readonly requests: number;
  readonly perSecond: number;
  readonly burst: number;
  readonly bodyBytes: number;
  /** A body that is signed is held in memory. */
  readonly signedBodyBytes: number;
  /** How long a caller that is not known yet is kept waiting. */
  readonly patienceMs: number;
  /** Until the last header of a request. */
  readonly headMs: number;
  readonly helloMs: number;
  readonly connectMs: number;
  readonly tunnelIdleMs: number;
  /** Until the head of an upstream's answer. */
  readonly answerMs: number;
  /** Between two parts of a body, whichever way it goes. */
  readonly bodyIdleMs: number;
  readonly wholeRequestMs: number;
}

export const DEFAULT_LIMITS: DataLimits = {
  connections: 256,
  tunnels: 64,
  requests: 32,
  perSecond: 100,
  burst: 200,
  bodyBytes: 25 * 1024 * 1024,
  signedBodyBytes: 1024 * 1024,
  // Below the 5 s of the health check, which shows a wrong principal.
  patienceMs: 3_000,
  headMs: 10_000,
  helloMs: 5_000,
  connectMs: 5_000,
  tunnelIdleMs: 15 * 60_000,
  answerMs: 60_000,
  bodyIdleMs: 5 * 60_000,
  wholeRequestMs: 60 * 60_000,
};
