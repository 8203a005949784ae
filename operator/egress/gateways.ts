import type { About, InputSeal, PolicyNarrow, PolicyPut } from '@space/contracts/egress';
import type { Secret } from '@space/contracts/secret';
import { canonicalJson, type Definition } from '@space/manifests';
import { sha256 } from '../runtime/digest.ts';
import { type CallReplica, type Replica, ReplicaError } from './replica.ts';

/** What became of a policy: all replicas that callers are sent to have it, or not yet. */
export interface Acknowledged {
  readonly serving: number;
  readonly acknowledged: number;
  /** Stored inputs whose value was entered for another definition. */
  readonly reentry: readonly string[];
  /** Envelopes that take the place of older ones. */
  readonly resealed: Readonly<Record<string, string>>;
  readonly problem?: unknown;
}

/** A policy with definitions as manifests have them: whether there is such a signing profile, the gateway judges. */
type Put = Omit<PolicyPut, 'stored_inputs'> & {
  readonly stored_inputs: Readonly<
    Record<string, { readonly definition: Definition; readonly envelope: string }>
  >;
};

/** All replicas of the egress gateway as one. What a replica has acknowledged it is not told again. */
export interface Gateways {
  put(put: Put, signal: AbortSignal): Promise<Acknowledged>;
  narrow(narrow: PolicyNarrow, signal: AbortSignal): Promise<Acknowledged>;
  /** For good: the Assistant is going. */
  remove(about: About, signal: AbortSignal): Promise<Acknowledged>;
  /** Stored inputs that a replica does not use any more, as their hosts told the values. */
  suspended(about: About, signal: AbortSignal): Promise<readonly string[]>;
  /** A value, sealed for exactly this definition. @throws ReplicaError */
  seal(
    about: About & { readonly input: string; readonly definition: Definition },
    value: Secret,
    signal: AbortSignal,
  ): Promise<string>;
  /** The start of the replica's process, and whether it knows that it was told of every Assistant. @throws ReplicaError */
  stateOf(replica: Replica, signal: AbortSignal): Promise<ReplicaState>;
  /** Tells this very start that it was told of every Assistant. @throws ReplicaError */
  markInStep(replica: Replica, instance: string, signal: AbortSignal): Promise<void>;
  /** Whether a replica took, or refused for good, what it was last told of an Assistant; undefined if nothing was. */
  heard(replica: Pick<Replica, 'key'>, about: Pick<About, 'capsule_id' | 'app_id'>): boolean | undefined;
  /** It is another start than was thought, and is told everything again. */
  forget(replica: Pick<Replica, 'key'>): void;
}

interface ReplicaState {
  readonly inStep: boolean;
  /** Random for each start. */
  readonly instance: string;
}

/** What a replica would say again however often it is asked: the fault is the one Assistant's. */
const REFUSALS = new Set(['conflict', 'invalid_request', 'stale_generation', 'too_large']);

const NOTHING = { reentry: [], resealed: {} };

export function egressGateways(replicas: () => readonly Replica[], call: CallReplica): Gateways {
  const record = recordOf(replicas);
  return {
    ...policyCalls(record, call),
    ...inputCalls(replicas, call),
    async stateOf(replica, signal) {
      const { in_step, instance } = await call(replica, 'replica.state', {}, signal);
      return { inStep: in_step, instance };
    },
    async markInStep(replica, instance, signal) {
      await call(replica, 'replica.in_step', { instance }, signal);
    },
    heard: record.heard,
    forget: record.forget,
  };
}

function policyCalls(record: ReplicaRecord, call: CallReplica): Pick<Gateways, 'put' | 'narrow' | 'remove'> {
  return {
    put: (put, signal) =>
      record.tellAll(
        put,
        sha256(canonicalJson(put)),
        async (replica) => {
          const answer = await call(replica, 'policy.put', put as PolicyPut, signal);
          if (answer.revision !== put.revision) throw new ReplicaError('another revision');
          return answer;
        },
        // Names of inputs are told to people, and so only those that are the Assistant's.
        ({ reentry, resealed }) => ({
          reentry: reentry.filter((key) => Object.hasOwn(put.stored_inputs, key)),
          resealed,
        }),
      ),
    narrow: (narrow, signal) =>
      record.tellAll(
        narrow,
        `narrow ${sha256(canonicalJson(narrow))}`,
        (replica) => call(replica, 'policy.narrow', narrow, signal),
        () => NOTHING,
      ),
    async remove({ capsule_id, app_id, assistant_uid }, signal) {
      const about = { capsule_id, app_id, assistant_uid };
      const outcome = await record.tellAll(
        about,
        `remove ${assistant_uid}`,
        (replica) => call(replica, 'policy.remove', about, signal),
        () => NOTHING,
      );
      // Nobody will ask about it any more; another of its name is told everything anew.
      record.forgetTenant(about);
      return outcome;
    },
  };
}

function inputCalls(
  replicas: () => readonly Replica[],
  call: CallReplica,
): Pick<Gateways, 'suspended' | 'seal'> {
  return {
    async suspended({ capsule_id, app_id, assistant_uid }, signal) {
      const about = { capsule_id, app_id, assistant_uid };
      const answers = await Promise.all(
        replicas().map((replica) =>
          call(replica, 'input.suspended', about, signal).then(
            ({ suspended }) => suspended,
            // One that cannot be asked now is asked the next time.
            () => [],
          ),
        ),
      );
      return [...new Set(answers.flat())];
    },
    async seal(about, value, signal) {
      const [replica] = replicas().toSorted((a, b) => Number(b.serving) - Number(a.serving));
      if (!replica) throw new ReplicaError('nothing: there is none');
      const body = { ...about, value: value.reveal() } as InputSeal;
      return (await call(replica, 'input.seal', body, signal)).envelope;
    },
  };
}

type ReplicaRecord = ReturnType<typeof recordOf>;

/** What each replica was told, and what it said to that. */
function recordOf(replicas: () => readonly Replica[]) {
  /** Policies sent, by the replica's start, then by Assistant: a digest and the replica's answer. */
  const told = new Map<string, Map<string, Told>>();
  /** The same keys: whether the replica accepted, or refused for good, the last policy. */
  const heard = new Map<string, Map<string, boolean>>();

  async function tellAll<T>(
    about: About,
    digest: string,
    tell: (replica: Replica) => Promise<T>,
    outcomeOf: (answer: T) => Pick<Told, 'reentry' | 'resealed'>,
  ): Promise<Acknowledged> {
    const now = replicas();
    for (const known of [told, heard])
      for (const key of known.keys()) if (!now.some((replica) => replica.key === key)) known.delete(key);
    const tenant = tenantOf(about);
    const answers = await Promise.all(
      now.map(async (replica): Promise<Answered> => {
        const had = ofReplica(told, replica.key);
        const answered = ofReplica(heard, replica.key);
        const known = had.get(tenant);
        if (known?.digest === digest) return { replica, outcome: known };
        // Until the replica answers, its policy is unknown.
        had.delete(tenant);
        try {
          const outcome = { digest, ...outcomeOf(await tell(replica)) };
          had.set(tenant, outcome);
          answered.set(tenant, true);
          return { replica, outcome };
        } catch (problem) {
          answered.set(tenant, problem instanceof ReplicaError && REFUSALS.has(problem.code));
          return { replica, problem };
        }
      }),
    );
    return acknowledgedOf(answers);
  }

  return {
    tellAll,
    heard: ({ key }: Pick<Replica, 'key'>, about: Pick<About, 'capsule_id' | 'app_id'>) =>
      heard.get(key)?.get(tenantOf(about)),
    forget({ key }: Pick<Replica, 'key'>): void {
      told.delete(key);
      heard.delete(key);
    },
    forgetTenant(about: About): void {
      for (const known of [...told.values(), ...heard.values()]) known.delete(tenantOf(about));
    },
  };
}

/** What a replica has by now, or why it has not. */
interface Answered {
  readonly replica: Replica;
  readonly outcome?: Told;
  readonly problem?: unknown;
}

function acknowledgedOf(answers: readonly Answered[]): Acknowledged {
  const serving = answers.filter(({ replica }) => replica.serving);
  const acknowledged = answers.flatMap(({ outcome }) => outcome ?? []);
  const problem = answers.find((one) => one.problem !== undefined)?.problem;
  return {
    serving: serving.length,
    acknowledged: serving.filter(({ outcome }) => outcome).length,
    reentry: [...new Set(acknowledged.flatMap(({ reentry }) => reentry))],
    // Without what every object has: a manifest may call an input "constructor".
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

interface Told extends Pick<Acknowledged, 'reentry' | 'resealed'> {
  readonly digest: string;
}
