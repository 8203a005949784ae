/**
 * What one Assistant, one Capsule and all together may use of a replica, and how long anything may take. Bytes,
 * milliseconds. Of each resource, a Capsule's share is far less than all, so that no Capsule takes what others need.
 */
export interface DataLimits {
  /** Of one address, used or not. */
  readonly connections: number;
  readonly capsuleConnections: number;
  readonly allConnections: number;
  /** Of one address that is in no policy, and of all such; the same numbers of calls are kept waiting. */
  readonly unknownConnections: number;
  readonly allUnknownConnections: number;
  /** Refusals that one such address is answered; what comes beyond is ended without a word. */
  readonly refusalsPerSecond: number;
  readonly refusalsBurst: number;
  readonly tunnels: number;
  readonly capsuleTunnels: number;
  readonly allTunnels: number;
  readonly requests: number;
  readonly capsuleRequests: number;
  readonly allRequests: number;
  readonly perSecond: number;
  readonly burst: number;
  /** Of all Assistants of a Capsule, begun; with bursts in the same proportion. As many refusals are answered. */
  readonly capsulePerSecond: number;
  readonly bodyBytes: number;
  /** Answers that tell a value, until it is not used any more; 0 for as many as there are. */
  readonly reflections: number;
  /** A body that is signed is held in memory, from its head on until its request is answered. */
  readonly signedBodyBytes: number;
  readonly capsuleSignedBytes: number;
  readonly allSignedBytes: number;
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
  capsuleConnections: 512,
  allConnections: 4_096,
  unknownConnections: 32,
  allUnknownConnections: 1_024,
  refusalsPerSecond: 10,
  refusalsBurst: 100,
  tunnels: 64,
  capsuleTunnels: 256,
  allTunnels: 2_048,
  requests: 32,
  capsuleRequests: 64,
  allRequests: 512,
  perSecond: 100,
  burst: 200,
  capsulePerSecond: 400,
  bodyBytes: 25 * 1024 * 1024,
  reflections: 5,
  signedBodyBytes: 1024 * 1024,
  capsuleSignedBytes: 8 * 1024 * 1024,
  // Of the pod's 384 MiB.
  allSignedBytes: 32 * 1024 * 1024,
  // The health check, which shows a wrong principal, waits for so long too.
  patienceMs: 3_000,
  headMs: 10_000,
  helloMs: 5_000,
  connectMs: 5_000,
  tunnelIdleMs: 15 * 60_000,
  // A language model may think for minutes before its first byte, and what is given up is asked, and paid, again.
  answerMs: 10 * 60_000,
  bodyIdleMs: 5 * 60_000,
  wholeRequestMs: 60 * 60_000,
};
