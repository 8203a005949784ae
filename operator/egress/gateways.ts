import type { About, InputSeal, PolicyNarrow, PolicyPut } from '@space/contracts/egress';
import type { Secret } from '@space/contracts/secret';
import { canonicalJson, type Definition } from '@space/manifests';
import { sha256 } from '../runtime/digest.ts';
import { type CallReplica, type Replica, ReplicaError } from './replica.ts';
import {
  type Acknowledged,
  type Addresses,
  type Policy,
  ReplicaRecord,
  type Unacknowledged,
} from './replica-record.ts';

/** Definitions as in the manifest; the gateway decides whether it knows a signing profile. */
type AsInManifest<Content> = Omit<Content, 'stored_inputs'> & {
  readonly stored_inputs: Readonly<
    Record<string, { readonly definition: Definition; readonly envelope: string }>
  >;
};
type Put = AsInManifest<PolicyPut>;
type Narrow = Omit<PolicyNarrow, 'running'> & { readonly running?: RunningPolicy };

/** What the running pods of an Assistant were given. */
export type RunningPolicy = AsInManifest<NonNullable<PolicyNarrow['running']>>;

/** All replicas of the egress gateway together. A policy that a replica has acknowledged is not sent again. */
export interface Gateways {
  put(put: Omit<Put, 'addresses'>, addresses: Addresses, signal: AbortSignal): Promise<Acknowledged>;
  narrow(narrow: Omit<Narrow, 'addresses'>, addresses: Addresses, signal: AbortSignal): Promise<Acknowledged>;
  /**
   * Sends each replica the policy that it was sent last of this Assistant with the present addresses. A replica that was
   * sent none, or refused it, gets them with the policy. @throws the error of a replica that serves callers
   */
  announce(about: About, addresses: Addresses, signal: AbortSignal): Promise<void>;
  /**
   * Removes the policy for good, since the Assistant is being deleted. Undefined once every replica has acknowledged that,
   * except those that Kubernetes has given up.
   */
  remove(about: About, signal: AbortSignal): Promise<Unacknowledged | undefined>;
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

const NOTHING = { reentry: [], resealed: {} };

export function egressGateways(replicas: () => readonly Replica[], call: CallReplica): Gateways {
  const record = new ReplicaRecord(replicas);
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
    settled: (replica, about) => record.settled(replica, about),
    forget: (replica) => record.forget(replica),
  };
}

function policyCalls(
  record: ReplicaRecord,
  call: CallReplica,
): Pick<Gateways, 'put' | 'narrow' | 'announce' | 'remove'> {
  return {
    put: (put, addresses, signal) => record.tellAll(put, putting(put, call), addresses, signal),
    narrow: (narrow, addresses, signal) => record.tellAll(narrow, narrowing(narrow, call), addresses, signal),
    announce: (about, addresses, signal) => record.announce(about, addresses, signal),
    async remove({ capsule_id, app_id, assistant_uid }, signal) {
      const about = { capsule_id, app_id, assistant_uid };
      const removing: Policy = {
        opens: false,
        at: () => ({
          digest: `remove ${assistant_uid}`,
          tell: async (replica, signal) => {
            await call(replica, 'policy.remove', about, signal);
            return NOTHING;
          },
        }),
      };
      return record.tellLast(about, removing, signal);
    },
  };
}

function putting(put: Omit<Put, 'addresses'>, call: CallReplica): Policy {
  return {
    opens: put.allowed_hosts.length > 0 || Object.keys(put.stored_inputs).length > 0,
    at(addresses) {
      const whole = { ...put, addresses };
      return {
        digest: sha256(canonicalJson(whole)),
        async tell(replica, signal) {
          const answer = await call(replica, 'policy.put', whole as PolicyPut, signal);
          if (answer.revision !== put.revision) throw new ReplicaError('another revision');
          const { reentry, resealed } = answer;
          // Names of inputs are shown to people, so only those of this Assistant are taken.
          return { reentry: reentry.filter((key) => Object.hasOwn(put.stored_inputs, key)), resealed };
        },
      };
    },
  };
}

function narrowing(narrow: Omit<Narrow, 'addresses'>, call: CallReplica): Policy {
  return {
    opens: narrow.allowed_hosts.length > 0 || Object.keys(narrow.stored_inputs).length > 0,
    at(addresses) {
      const whole = { ...narrow, addresses };
      return {
        digest: `narrow ${sha256(canonicalJson(whole))}`,
        async tell(replica, signal) {
          await narrowOne(call, replica, whole as PolicyNarrow, signal);
          return NOTHING;
        },
      };
    },
  };
}

/** A replica of an earlier release knows neither of the last two fields, and removes without them what must be removed. */
async function narrowOne(
  call: CallReplica,
  replica: Replica,
  whole: PolicyNarrow,
  signal: AbortSignal,
): Promise<void> {
  const { running, ...known } = whole;
  const { addresses: _, ...least } = known;
  const forms = running === undefined ? [whole, least] : [whole, known, least];
  for (const [at, form] of forms.entries()) {
    try {
      await call(replica, 'policy.narrow', form, signal);
      return;
    } catch (error) {
      const isUnknown = error instanceof ReplicaError && error.code === 'invalid_request';
      if (!isUnknown || at === forms.length - 1) throw error;
    }
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
