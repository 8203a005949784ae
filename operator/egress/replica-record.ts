import type { About } from '@space/contracts/egress';
import { type Replica, ReplicaError } from './replica.ts';

/** How many replicas have acknowledged a policy. */
export interface Acknowledged {
  readonly serving: number;
  readonly acknowledged: number;
  /** Stored inputs whose value was entered for another definition. */
  readonly reentry: readonly string[];
  /** Envelopes that replace older ones. */
  readonly resealed: Readonly<Record<string, string>>;
  /** The error of a replica that serves callers. One that serves none has everything sent again once it does. */
  readonly problem?: unknown;
}

/** The replicas that did not acknowledge a removal, by their pods, and the error of one of them. */
export interface Unacknowledged {
  readonly pods: readonly string[];
  readonly problem: unknown;
}

/** The present addresses of an Assistant's pods, which are read when a message is sent. */
export type Addresses = () => readonly string[];

type Answer = Pick<Acknowledged, 'reentry' | 'resealed'>;

/** What a replica is told of an Assistant, which depends on where the pods are. */
export interface Policy {
  /** Whether pods may do anything by it. */
  readonly opens: boolean;
  at(addresses: readonly string[]): {
    readonly digest: string;
    tell(replica: Replica, signal: AbortSignal): Promise<Answer>;
  };
}

/** The last policy that a replica has acknowledged. */
interface Outcome extends Answer {
  readonly digest: string;
}

/** What is sent again when other addresses have come, and the UID of its Assistant. */
interface Sent {
  readonly uid: string;
  readonly policy: Policy;
}

/** The answer of one replica, or the error. */
interface Answered {
  readonly replica: Replica;
  readonly outcome?: Outcome;
  readonly problem?: unknown;
}

/**
 * Errors that a replica would return again for the same policy: one Assistant's policy is at fault, not the replica.
 */
const REFUSALS = new Set(['conflict', 'invalid_request', 'stale_generation', 'too_large']);

/**
 * What each replica was sent and what it answered. Messages about one Assistant reach a replica one after the other, each with the
 * addresses of the moment at which it is sent, so that none sets them back.
 */
export class ReplicaRecord {
  readonly #replicas: () => readonly Replica[];
  /** By the replica's process, then by Assistant. */
  readonly #outcomes = new Map<string, Map<string, Outcome>>();
  /**
   * With the same keys: the last policy that was sent, whether the replica has answered or not; absent if it opens
   * nothing, or was refused. An earlier one may be what somebody has taken back.
   */
  readonly #sent = new Map<string, Map<string, Sent>>();
  /** With the same keys: whether the replica accepted, or finally refused, the last policy. */
  readonly #settled = new Map<string, Map<string, boolean>>();
  /** By the replica's process, then by Assistant: the end of the last message that is under way. */
  readonly #turns = new Map<string, Map<string, Promise<unknown>>>();

  constructor(replicas: () => readonly Replica[]) {
    this.#replicas = replicas;
  }

  /** Sends the policy to each replica that does not have it. */
  async tellAll(
    about: About,
    policy: Policy,
    addresses: Addresses,
    signal: AbortSignal,
  ): Promise<Acknowledged> {
    const answers = await this.#toEach(about, (replica) =>
      this.#tell(replica, about, policy, addresses, signal),
    );
    return acknowledgedOf(answers);
  }

  /**
   * The same for the last that is said of an Assistant, of which nothing is remembered. It has to reach every process that
   * may have a policy, whether callers are sent to it or not: one that is not Ready now may be so again.
   */
  async tellLast(about: About, policy: Policy, signal: AbortSignal): Promise<Unacknowledged | undefined> {
    const answers = await this.#toEach(about, (replica) =>
      this.#tell(replica, about, policy, () => [], signal),
    );
    this.#forgetTenant(about);
    const missed = answers.filter(({ replica, outcome }) => !outcome && !replica.lost);
    const [first] = missed;
    return first && { pods: missed.map(({ replica }) => replica.pod), problem: first.problem };
  }

  /**
   * Sends each replica the policy that it was sent last, if other addresses have come since, or if it did not answer.
   * Throws the error of a replica that serves callers.
   */
  async announce(about: About, addresses: Addresses, signal: AbortSignal): Promise<void> {
    const answers = await this.#toEach(about, async (replica) => {
      const sent = this.#sent.get(replica.key)?.get(tenantOf(about));
      if (sent?.uid !== about.assistant_uid) return undefined;
      return this.#tell(replica, about, sent.policy, addresses, signal);
    });
    const failed = answers.find((one) => one?.replica.serving && one.problem !== undefined);
    if (failed) throw failed.problem;
  }

  settled({ key }: Pick<Replica, 'key'>, about: Pick<About, 'capsule_id' | 'app_id'>): boolean | undefined {
    return this.#settled.get(key)?.get(tenantOf(about));
  }

  forget({ key }: Pick<Replica, 'key'>): void {
    for (const known of this.#known()) known.delete(key);
  }

  #forgetTenant(about: About): void {
    for (const known of this.#known()) for (const tenants of known.values()) tenants.delete(tenantOf(about));
  }

  /** All that is known of replicas; the turns end by themselves. */
  #known(): readonly Map<string, Map<string, unknown>>[] {
    return [this.#outcomes, this.#sent, this.#settled];
  }

  #toEach<T>(about: About, act: (replica: Replica) => Promise<T>): Promise<T[]> {
    const now = this.#replicas();
    for (const known of this.#known())
      for (const key of known.keys()) if (!now.some((replica) => replica.key === key)) known.delete(key);
    return Promise.all(now.map((replica) => this.#inTurn(replica, tenantOf(about), () => act(replica))));
  }

  #inTurn<T>({ key }: Replica, tenant: string, act: () => Promise<T>): Promise<T> {
    const turns = ofReplica(this.#turns, key);
    const result = (turns.get(tenant) ?? Promise.resolve()).then(act);
    const end: Promise<unknown> = result
      .catch(() => undefined)
      .then(() => {
        if (turns.get(tenant) === end) turns.delete(tenant);
        // The replica may be gone, or come back under the same key while the message is under way.
        if (turns.size === 0) this.#turns.delete(key);
      });
    turns.set(tenant, end);
    return result;
  }

  async #tell(
    replica: Replica,
    about: About,
    policy: Policy,
    addresses: Addresses,
    signal: AbortSignal,
  ): Promise<Answered> {
    const tenant = tenantOf(about);
    const outcomes = ofReplica(this.#outcomes, replica.key);
    const sent = ofReplica(this.#sent, replica.key);
    const settled = ofReplica(this.#settled, replica.key);
    const message = policy.at(addresses());
    const known = outcomes.get(tenant);
    if (known?.digest === message.digest) return { replica, outcome: known };
    // Until the replica answers, its policy is unknown.
    outcomes.delete(tenant);
    if (policy.opens) sent.set(tenant, { uid: about.assistant_uid, policy });
    else sent.delete(tenant);
    try {
      const answer = await message.tell(replica, signal);
      const outcome = { digest: message.digest, ...answer };
      outcomes.set(tenant, outcome);
      settled.set(tenant, true);
      return { replica, outcome };
    } catch (problem) {
      const isRefused = isRefusal(problem);
      if (isRefused) sent.delete(tenant);
      settled.set(tenant, isRefused);
      return { replica, problem };
    }
  }
}

const isRefusal = (problem: unknown): boolean =>
  problem instanceof ReplicaError && REFUSALS.has(problem.code);

/**
 * The sum of the answers. A replica that serves nobody is not called again and again: one on a lost node would delay
 * what others are told.
 */
function acknowledgedOf(answers: readonly Answered[]): Acknowledged {
  const serving = answers.filter(({ replica }) => replica.serving);
  const acknowledged = answers.flatMap(({ outcome }) => outcome ?? []);
  const problem = serving.find((one) => one.problem !== undefined)?.problem;
  return {
    serving: serving.length,
    acknowledged: serving.filter(({ outcome }) => outcome).length,
    reentry: [...new Set(acknowledged.flatMap(({ reentry }) => reentry))],
    // The object has no prototype, since a manifest may name an input "constructor".
    resealed: Object.assign(Object.create(null), ...acknowledged.map(({ resealed }) => resealed)),
    ...(problem === undefined ? {} : { problem }),
  };
}

function ofReplica<T>(all: Map<string, Map<string, T>>, key: string): Map<string, T> {
  const known = all.get(key) ?? new Map<string, T>();
  all.set(key, known);
  return known;
}

const tenantOf = ({ capsule_id, app_id }: Pick<About, 'capsule_id' | 'app_id'>) => `${capsule_id}/${app_id}`;
