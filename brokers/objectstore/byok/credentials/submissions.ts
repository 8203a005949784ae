import { ServiceError } from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';
import type { Call } from '@space/broker-kit/principals';
import type { CredentialRecord, Fields } from '@space/contracts/objectstore';
import { type Candidate, type Decision, type Planned, planned } from '../custody/changes.ts';
import type { Custody } from '../custody/custody.ts';
import type { Inventory, SealedSet } from '../custody/inventory.ts';
import type { InventoryChange } from '../custody/locked.ts';
import { findAnswer, keepAnswer, type RequestKey } from '../custody/requests.ts';
import { createTrials, type Trial } from './trials.ts';
import type { Verify } from './verify.ts';

export interface SubmissionOptions {
  readonly custody: Custody;
  readonly connections: Pick<Connections, 'transaction'>;
  readonly verify: Verify;
  readonly verifications: { readonly perSecond: number; readonly burst: number };
  readonly now?: () => Date;
}

/** Whether the caller may act for a Capsule. */
export interface Permit {
  /** Returns the Capsule's incarnation; in a writing transaction it checks again that the caller still may act. */
  authorise(session: Session, call: Call, capsule: string): Promise<number>;
  /** Called together with a change: checks that the principal was not retired meanwhile, and writes the audit entry. */
  note(
    session: Session,
    call: Call,
    entry: { readonly operation: string; readonly capsule: string; readonly outcome: string },
  ): Promise<void>;
}

type Changed = CredentialRecord & { readonly inventory_generation: number };

/** What a create and a rotation have in common. */
interface Submission {
  readonly operation: 'capsule.credential.create' | 'capsule.credential.rotate';
  readonly capsule: string;
  readonly fields: Fields;
  readonly idempotencyKey: string;
  /** The whole request, with its fields in a fixed order. */
  readonly request: unknown;
  /** The planned set, given the present inventory; called before the trial and again in the change. */
  readonly plan: (inventory: Inventory, candidate: Candidate) => Decision<Planned>;
}

/**
 * Processes creates and rotations: the candidate is verified first, then written into the inventory by
 * compare-and-swap.
 */
export class Submissions {
  readonly #options: SubmissionOptions;
  readonly #permit: Permit;
  readonly #trial: Trial;

  constructor(options: SubmissionOptions, permit: Permit) {
    this.#options = options;
    this.#permit = permit;
    this.#trial = createTrials(options.verify, options.verifications);
  }

  async submit(call: Call, submission: Submission): Promise<Changed> {
    const { custody } = this.#options;
    const { capsule, fields, plan } = submission;
    const known = await this.#repeat(call, submission);
    if (known !== undefined) return known;

    const candidate = this.#candidateOf(fields);
    // A candidate that would be refused anyway is not tried on the endpoint.
    const current = await custody.read(capsule, (session) => this.#permit.authorise(session, call, capsule));
    const early = plan(current, candidate);
    const check = early.refused === undefined ? await this.#trial(capsule, fields) : undefined;
    if (early.refused !== undefined || check !== undefined) {
      // The same request may have succeeded meanwhile, and even have caused the very state that refuses this one.
      const twin = await this.#repeat(call, submission);
      if (twin !== undefined) return twin;
    }
    allowed(early);
    if (check !== undefined) throw new ServiceError('verification_failed', `candidate: ${check}`, { check });
    return custody.change(capsule, (change) => this.#put(call, submission, candidate, change));
  }

  /**
   * Returns the answer that the same request had before, once everything that it left unfinished is done; undefined if it
   * had none.
   */
  async #repeat(call: Call, submission: Submission): Promise<Changed | undefined> {
    const { connections, custody } = this.#options;
    const { capsule } = submission;
    const answer = await connections.transaction(async (session) => {
      const incarnation = await this.#permit.authorise(session, call, capsule);
      return findAnswer(session, custody.seals(), keyOf(submission, incarnation));
    });
    if (answer === undefined) return undefined;
    return custody.change(capsule, async (change) => {
      change.read(await this.#permit.authorise(change.session, call, capsule));
      return answer as Changed;
    });
  }

  #candidateOf(fields: Fields): Candidate {
    const { custody, now = () => new Date() } = this.#options;
    const { endpoint, region, bucket, addressing } = fields;
    return {
      ...{ endpoint, region, bucket, addressing },
      formVersion: 1,
      fingerprint: custody.seals().fingerprint(fields['access-key-id']),
      verifiedAt: now().getTime(),
    };
  }

  /** Writes a verified candidate into the inventory, as the planned set. */
  async #put(
    call: Call,
    submission: Submission,
    candidate: Candidate,
    change: InventoryChange,
  ): Promise<Changed> {
    const { operation, capsule, fields } = submission;
    const seals = this.#options.custody.seals();
    const incarnation = await this.#permit.authorise(change.session, call, capsule);
    const inventory = change.read(incarnation);
    const key = keyOf(submission, incarnation);
    const twin = await findAnswer(change.session, seals, key);
    if (twin !== undefined) return twin as Changed;
    const { set } = allowed(submission.plan(inventory, candidate));
    const sealed = await seals.sealSet(inventory, set, {
      accessKeyId: fields['access-key-id'],
      secretAccessKey: fields['secret-access-key'],
    });
    const next = planned(inventory, sealed);
    const answer = { ...recordOf(sealed, next), inventory_generation: next.generation };
    const outcome = `${set.setId} generation ${set.generation}`;
    await change.commit(next, async (session) => {
      await this.#permit.note(session, call, { operation, capsule, outcome });
      await keepAnswer(session, seals, key, answer);
    });
    return answer;
  }
}

/** Identifies the request, so that it is answered only once; its fields are in a fixed order. */
function keyOf({ operation, capsule, idempotencyKey, request }: Submission, incarnation: number): RequestKey {
  return { capsule, incarnation, idempotencyKey, request: JSON.stringify([operation, request]) };
}

/** Returns an accepted decision, and throws the refusal of any other. */
export function allowed<Next extends object>(decision: Decision<Next>): Next {
  if (decision.refused === undefined) return decision;
  throw new ServiceError(decision.refused, 'the inventory does not allow it');
}

/** A set in the form that its Capsule sees. */
export function recordOf(set: SealedSet, { selected }: Inventory): CredentialRecord {
  const iso = (ms: number) => new Date(ms).toISOString();
  return {
    set_id: set.setId,
    name: set.name,
    form_version: 1,
    generation: set.generation,
    selected: selected === set.setId,
    endpoint_host: set.endpoint.slice('https://'.length),
    region: set.region,
    bucket: set.bucket,
    addressing: set.addressing,
    access_key_fingerprint: set.fingerprint,
    verified_at: iso(set.verifiedAt),
    created_at: iso(set.createdAt),
    rotated_at: set.rotatedAt === null ? null : iso(set.rotatedAt),
    state: 'active',
  };
}
