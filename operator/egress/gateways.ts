import type { About, InputSeal, PolicyNarrow, PolicyPut } from '@space/contracts/egress';
import type { Secret } from '@space/contracts/secret';
import { canonicalJson, type Definition } from '@space/manifests';
import { sha256 } from '../runtime/digest.ts';
import { type CallReplica, type Replica, ReplicaError } from './replica.ts';

/** How many replicas have acknowledged a policy. */
export interface Acknowledged {
  readonly serving: number;
  readonly acknowledged: number;
  /** Stored inputs whose value was entered for another definition. */
  readonly reentry: readonly string[];
  /** Envelopes that replace older ones. */
  readonly resealed: Readonly<Record<string, string>>;
  readonly problem?: unknown;
}

/** A policy with definitions as in the manifest; the gateway decides whether it knows a signing profile. */
type Put = Omit<PolicyPut, 'stored_inputs'> & {
  readonly stored_inputs: Readonly<
    Record<string, { readonly definition: Definition; readonly envelope: string }>
  >;
};

/** All replicas of the egress gateway together. A policy that a replica has acknowledged is not sent again. */
export interface Gateways {
  put(put: Put, signal: AbortSignal): Promise<Acknowledged>;
  narrow(narrow: PolicyNarrow, signal: AbortSignal): Promise<Acknowledged>;
  /** Removes the policy for good, since the Assistant is being deleted. */
  remove(about: About, signal: AbortSignal): Promise<Acknowledged>;
  /** Stored inputs that a replica has suspended because their hosts returned the values. */
  suspended(about: About, signal: AbortSignal): Promise<readonly string[]>;
  /** Seals a value for exactly this definition. @throws ReplicaError */
  seal(
    about: About & { readonly input: string; readonly definition: Definition },
    value: Secret,
    signal: AbortSignal,
  ): Promise<string>;
  /**
   * Identifies the running process of the replica and says whether it is in step, that is, has the policies of every
   * Assistant. @throws ReplicaError
   */
  stateOf(replica: Replica, signal: AbortSignal): Promise<ReplicaState>;
  /** Tells this process of the replica that it is in step. @throws ReplicaError */
  markInStep(replica: Replica, instance: string, signal: AbortSignal): Promise<void>;
  /** Whether a replica accepted, or finally refused, the last policy of an Assistant; undefined if none was sent. */
  settled(replica: Pick<Replica, 'key'>, about: Pick<About, 'capsule_id' | 'app_id'>): boolean | undefined;
  /** Forgets what the replica was sent, since its process has restarted; everything is sent again. */
  forget(replica: Pick<Replica, 'key'>): void;
}

interface ReplicaState {
  readonly inStep: boolean;
  /** A random identifier of the replica's process. */
  readonly instance: string;
}

/**
 * Errors that a replica would return again for the same policy: one Assistant's policy is at fault, not the replica.
 */
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
    settled: record.settled,
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
        // Names of inputs are shown to people, so only those of this Assistant are taken.
        ({ reentry, resealed }) => ({
          reentry: reentry.filter((key) => Object.hasOwn(put.stored_inputs, key)),
          resealed,
        }),
      ),
    narrow: (narrow, signal) =>
      record.tellAll(
        narrow,
        `narrow ${sha256(canonicalJson(narrow))}`,
        (replica) => narrowOne(call, replica, narrow, signal),
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
      // This Assistant is deleted; another one of its name is sent everything again.
      record.forgetTenant(about);
      return outcome;
    },
  };
}

/** A replica of an earlier release knows no addresses here, and removes without them what must be removed. */
async function narrowOne(
  call: CallReplica,
  replica: Replica,
  { addresses, ...narrow }: PolicyNarrow,
  signal: AbortSignal,
) {
  const whole = addresses === undefined ? narrow : { ...narrow, addresses };
  try {
    return await call(replica, 'policy.narrow', whole, signal);
  } catch (error) {
    if (!(error instanceof ReplicaError && error.code === 'invalid_request')) throw error;
    return call(replica, 'policy.narrow', narrow, signal);
  }
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
            // A replica that cannot be asked now is asked the next time.
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

/** Records what each replica was sent and what it answered. */
function recordOf(replicas: () => readonly Replica[]) {
  /** Policies that were sent, by the replica's process, then by Assistant: a digest and the answer. */
  const outcomes = new Map<string, Map<string, Outcome>>();
  /** With the same keys: whether the replica accepted, or finally refused, the last policy. */
  const settled = new Map<string, Map<string, boolean>>();

  async function tellAll<T>(
    about: About,
    digest: string,
    tell: (replica: Replica) => Promise<T>,
    outcomeOf: (answer: T) => Pick<Outcome, 'reentry' | 'resealed'>,
  ): Promise<Acknowledged> {
    const now = replicas();
    for (const known of [outcomes, settled])
      for (const key of known.keys()) if (!now.some((replica) => replica.key === key)) known.delete(key);
    const tenant = tenantOf(about);
    const answers = await Promise.all(
      now.map(async (replica): Promise<Answered> => {
        const had = ofReplica(outcomes, replica.key);
        const answered = ofReplica(settled, replica.key);
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

/** The answer of one replica, or the error. */
interface Answered {
  readonly replica: Replica;
  readonly outcome?: Outcome;
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

interface Outcome extends Pick<Acknowledged, 'reentry' | 'resealed'> {
  readonly digest: string;
}
