/**
 * What one Assistant, one Capsule and all together may use of a replica, and how long anything may take. Bytes,
 * milliseconds. Of each resource, a Capsule's share is far less than all, so that no Capsule takes what others need.
 */
export interface DataLimits {
  /** Connections of one address, whether used or not. */
  readonly connections: number;
  readonly capsuleConnections: number;
  readonly allConnections: number;
  /** Connections of one address that is in no policy, and of all such addresses; as many of their calls may wait. */
  readonly unknownConnections: number;
  readonly allUnknownConnections: number;
  /** Refusals that one such address is answered; beyond them its connections are closed without an answer. */
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
  /** Tunnels and requests that a Capsule may begin in a second, with a burst in proportion; as many refusals are answered. */
  readonly capsulePerSecond: number;
  readonly bodyBytes: number;
  /** Answers that may hold a value, until the value is suspended; 0 for no limit. */
  readonly reflections: number;
  /** A body that is signed is kept in memory from its first byte until its request is answered. */
  readonly signedBodyBytes: number;
  readonly capsuleSignedBytes: number;
  readonly allSignedBytes: number;
  /** How long an unknown caller waits for a policy before it is refused. */
  readonly unknownWaitMs: number;
  /** Time until the last header of a request. */
  readonly headMs: number;
  readonly helloMs: number;
  readonly connectMs: number;
  readonly tunnelIdleMs: number;
  /** Time until the headers of an upstream's answer. */
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
  // The chart gives the pod 384 MiB.
  allSignedBytes: 32 * 1024 * 1024,
  // The health check, which shows a wrong principal, waits for as long.
  unknownWaitMs: 3_000,
  headMs: 10_000,
  helloMs: 5_000,
  connectMs: 5_000,
  tunnelIdleMs: 15 * 60_000,
  // A language model may think for minutes before its first byte, and a request that is given up is paid for twice.
  answerMs: 10 * 60_000,
  bodyIdleMs: 5 * 60_000,
  wholeRequestMs: 60 * 60_000,
};
