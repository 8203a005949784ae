/**
 * What a direction of a tunnel keeps in memory at most while its receiver takes nothing: Node stops writing, and then reading,
 * beyond 64 KiB, and a piece has as many.
 */
export const TUNNEL_STALL_BYTES = 256 * 1024;
/** The same of an answer with a stored input, with what was decrypted and what waits to be scrubbed: some 470 KiB were measured. */
export const ANSWER_STALL_BYTES = 512 * 1024;

/**
 * How much of a replica one Assistant, one Capsule and all together may use, and how long anything may take, in bytes
 * and milliseconds. A Capsule's share of each resource is much less than the whole, so that no Capsule takes what
 * others need.
 */
export interface DataLimits {
  /** Connections of one address, including idle ones. */
  readonly connections: number;
  readonly capsuleConnections: number;
  readonly allConnections: number;
  /**
   * Connections of one address that is in no policy, and of all such addresses; also the number of their calls that may
   * wait.
   */
  readonly unknownConnections: number;
  readonly allUnknownConnections: number;
  /**
   * Connections of one Capsule's new pods, and of all Capsules': of callers with the principal of an Assistant, and an
   * address that is in no policy yet.
   */
  readonly arrivals: number;
  readonly allArrivals: number;
  /** Refusals that are sent to one such address; after more of them its connections are closed without an answer. */
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
  /**
   * Tunnels and requests that a Capsule may begin in a second, with a burst in proportion; also the number of refusals
   * that it is sent.
   */
  readonly capsulePerSecond: number;
  readonly bodyBytes: number;
  /** Answers that contain a value until the value is suspended; 0 means no limit. */
  readonly reflections: number;
  /** Bytes of bodies to be signed, which are kept in memory from the first byte until the request is answered. */
  readonly signedBodyBytes: number;
  readonly capsuleSignedBytes: number;
  readonly allSignedBytes: number;
  /** Bytes of tunnels and answers whose receivers do not take them. */
  readonly stalledBytes: number;
  /** Connections to hosts of stored inputs that nobody uses, each of which takes some hundred KiB. */
  readonly unusedUpstreams: number;
  /**
   * How long an unknown caller waits for a policy before it is refused: as long as a busy cluster may take to say where a
   * pod is, and less than clients wait for a tunnel.
   */
  readonly unknownWaitMs: number;
  /** The same for the replica's own health check, which uses a wrong principal. */
  readonly ownWaitMs: number;
  /** Time until the last header of a request. */
  readonly headMs: number;
  readonly helloMs: number;
  readonly connectMs: number;
  readonly tunnelIdleMs: number;
  /** Time until the headers of an upstream's answer. */
  readonly answerMs: number;
  /** The longest pause between two parts of a body, in either direction. */
  readonly bodyIdleMs: number;
  readonly wholeRequestMs: number;
}

export const DEFAULT_LIMITS: DataLimits = {
  connections: 256,
  capsuleConnections: 512,
  allConnections: 4_096,
  unknownConnections: 128,
  allUnknownConnections: 1_024,
  // An Assistant with 60 calls a second, for as long as they wait.
  arrivals: 512,
  allArrivals: 2_048,
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
  // These and what connections, tunnels and requests take fit into the memory that the chart gives the pod.
  allSignedBytes: 32 * 1024 * 1024,
  stalledBytes: 128 * 1024 * 1024,
  unusedUpstreams: 512,
  unknownWaitMs: 8_000,
  ownWaitMs: 3_000,
  headMs: 10_000,
  helloMs: 5_000,
  connectMs: 5_000,
  tunnelIdleMs: 15 * 60_000,
  // A language model may need minutes before its first byte, and a request that is given up has to be paid for again.
  answerMs: 10 * 60_000,
  bodyIdleMs: 5 * 60_000,
  wholeRequestMs: 60 * 60_000,
};
