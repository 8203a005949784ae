import type { About } from '@space/contracts/egress';
import type { Acknowledged, Addresses } from './gateways.ts';
import { type Replica, ReplicaError } from './replica.ts';

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
  /** Its Assistant and how to send it with other addresses; absent if it opens nothing. */
  readonly moves?: { readonly uid: string; readonly policy: Policy } | undefined;
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

export type ReplicaRecord = ReturnType<typeof recordOf>;

/**
 * Records what each replica was sent and what it answered. Messages about one Assistant reach a replica one after the
 * other, each with the addresses of the moment at which it is sent, so that none sets them back.
 */
export function recordOf(replicas: () => readonly Replica[]) {
  /** By the replica's process, then by Assistant. */
  const outcomes = new Map<string, Map<string, Outcome>>();
  /** With the same keys: whether the replica accepted, or finally refused, the last policy. */
  const settled = new Map<string, Map<string, boolean>>();
  /** With the same keys: the end of the last message that is under way. */
  const turns = new Map<string, Map<string, Promise<unknown>>>();

  function present(): readonly Replica[] {
    const now = replicas();
    for (const known of [outcomes, settled, turns])
      for (const key of known.keys()) if (!now.some((replica) => replica.key === key)) known.delete(key);
    return now;
  }

  function inTurn<T>(replica: Replica, tenant: string, act: () => Promise<T>): Promise<T> {
    const own = ofReplica(turns, replica.key);
    const result = (own.get(tenant) ?? Promise.resolve()).then(act);
    const end: Promise<unknown> = result
      .catch(() => undefined)
      .then(() => {
        if (own.get(tenant) === end) own.delete(tenant);
      });
    own.set(tenant, end);
    return result;
  }

  async function tell(
    replica: Replica,
    about: About,
    policy: Policy,
    addresses: Addresses,
    signal: AbortSignal,
  ): Promise<Answered> {
    const tenant = tenantOf(about);
    const [had, answered] = [ofReplica(outcomes, replica.key), ofReplica(settled, replica.key)];
    const message = policy.at(addresses());
    const known = had.get(tenant);
    if (known?.digest === message.digest) return { replica, outcome: known };
    // Until the replica answers, its policy is unknown.
    had.delete(tenant);
    try {
      const answer = await message.tell(replica, signal);
      const moves = policy.opens ? { uid: about.assistant_uid, policy } : undefined;
      const outcome = { digest: message.digest, ...answer, moves };
      had.set(tenant, outcome);
      answered.set(tenant, true);
      return { replica, outcome };
    } catch (problem) {
      answered.set(tenant, problem instanceof ReplicaError && REFUSALS.has(problem.code));
      return { replica, problem };
    }
  }

  return {
    async tellAll(
      about: About,
      policy: Policy,
      addresses: Addresses,
      signal: AbortSignal,
    ): Promise<Acknowledged> {
      const answers = await Promise.all(
        present().map((replica) =>
          inTurn(replica, tenantOf(about), () => tell(replica, about, policy, addresses, signal)),
        ),
      );
      return acknowledgedOf(answers);
    },
    async move(about: About, addresses: Addresses, signal: AbortSignal): Promise<void> {
      await Promise.all(
        present().map((replica) =>
          inTurn(replica, tenantOf(about), async () => {
            const moves = outcomes.get(replica.key)?.get(tenantOf(about))?.moves;
            if (moves?.uid === about.assistant_uid)
              await tell(replica, about, moves.policy, addresses, signal);
          }),
        ),
      );
    },
    settled: ({ key }: Pick<Replica, 'key'>, about: Pick<About, 'capsule_id' | 'app_id'>) =>
      settled.get(key)?.get(tenantOf(about)),
    forget({ key }: Pick<Replica, 'key'>): void {
      outcomes.delete(key);
      settled.delete(key);
    },
    forgetTenant(about: About): void {
      for (const known of [...outcomes.values(), ...settled.values()]) known.delete(tenantOf(about));
    },
  };
}

function acknowledgedOf(answers: readonly Answered[]): Acknowledged {
  const serving = answers.filter(({ replica }) => replica.serving);
  const acknowledged = answers.flatMap(({ outcome }) => outcome ?? []);
  const problem = answers.find((one) => one.problem !== undefined)?.problem;
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
