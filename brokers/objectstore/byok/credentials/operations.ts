import { randomBytes } from 'node:crypto';
import { ServiceError } from '@space/broker-kit';
import type { Handlers } from '@space/broker-kit/control';
import type { Connections, Session } from '@space/broker-kit/postgres';
import { about, audit, type Call } from '@space/broker-kit/principals';
import {
  type CREDENTIALS,
  type CredentialRecord,
  type Fields,
  MAX_SETS,
  type OBJECT_STORE,
} from '@space/contracts/objectstore';
import type { CapsuleAuthority } from '../../principals/authority.ts';
import {
  type Candidate,
  clear,
  type Decision,
  type Placed,
  placeCreate,
  placed,
  placeRotate,
  remove,
  select,
} from '../custody/changes.ts';
import { type Custody, isEmpty } from '../custody/custody.ts';
import { discard } from '../custody/discard.ts';
import type { Inventory, SealedSet } from '../custody/inventory.ts';
import { findAnswer, keepAnswer, type RequestKey } from '../custody/requests.ts';
import { readTombstone } from '../custody/rows.ts';
import { createTrials } from './trials.ts';
import type { Verify } from './verify.ts';

export interface CredentialOptions {
  readonly custody: Custody;
  readonly connections: Pick<Connections, 'transaction'>;
  readonly capsules: Pick<CapsuleAuthority, 'authorise'>;
  readonly verify: Verify;
  readonly verifications: { readonly perSecond: number; readonly burst: number };
  readonly now?: () => Date;
  readonly random?: (bytes: number) => Buffer;
}

type Changed = CredentialRecord & { readonly inventory_generation: number };

/** The part of a create or rotate that both share: its candidate, and where the new set is to stand. */
interface Submission {
  readonly operation: 'capsule.credential.create' | 'capsule.credential.rotate';
  readonly capsule: string;
  readonly fields: Fields;
  readonly idempotencyKey: string;
  /** All of the request, in a fixed order. */
  readonly request: unknown;
  readonly place: (inventory: Inventory, candidate: Candidate) => Decision<Placed>;
}

/** The five operations: verification first, then compare-and-swap. */
export function credentialHandlers(
  options: CredentialOptions,
): Pick<Handlers<typeof OBJECT_STORE>, keyof typeof CREDENTIALS> {
  const { custody, connections, capsules, now = () => new Date(), random = randomBytes } = options;
  const trial = createTrials(options.verify, options.verifications);

  const lifeOf = (call: Call, capsule: string) => async (session: Session) =>
    (await capsules.authorise(session, call, capsule, 'apps')).life;

  /** In the transaction that writes: the principal may have been retired since, and what is done is noted. */
  const beside =
    (
      call: Call,
      operation: string,
      capsule: string,
      outcome: string,
      more?: (session: Session) => Promise<void>,
    ) =>
    async (session: Session) => {
      await capsules.authorise(session, call, capsule, 'apps');
      await audit(session, { ...about(call, operation, 'capsule'), capsule, outcome });
      await more?.(session);
    };

  async function submit(call: Call, submission: Submission): Promise<Changed> {
    const { operation, capsule, fields, idempotencyKey, place } = submission;
    const life = lifeOf(call, capsule);
    const key = (of: number): RequestKey => {
      const request = JSON.stringify([operation, submission.request]);
      return { capsule, life: of, idempotencyKey, request };
    };
    const answered = () =>
      connections.transaction(async (session) =>
        findAnswer(session, custody.seals(), key(await life(session))),
      );
    // A change of nothing: whatever the first attempt left undone is done before it is answered again.
    const repeat = (answer: unknown) =>
      custody.change(capsule, async (session, current) => ({
        next: current(await life(session)),
        answer: answer as Changed,
      }));
    const known = await answered();
    if (known !== undefined) return repeat(known);

    const at = now().getTime();
    const { endpoint, region, bucket, addressing } = fields;
    const candidate: Candidate = {
      ...{ endpoint, region, bucket, addressing },
      formVersion: 1,
      fingerprint: custody.seals().fingerprint(fields['access-key-id']),
      verifiedAt: at,
    };
    // What would be refused anyway is not tried out on somebody's server.
    const early = place(await custody.read(capsule, life), candidate);
    if (early.refused !== undefined) {
      // Its twin may have been here a moment ago, and left the very state that refuses it.
      const twin = await answered();
      if (twin !== undefined) return repeat(twin);
      allowed(early);
    }
    const check = await trial(capsule, fields);
    if (check !== undefined) throw new ServiceError('verification_failed', `candidate: ${check}`, { check });

    return custody.change<Changed>(capsule, async (session, current) => {
      const seals = custody.seals();
      const of = await life(session);
      const inventory = current(of);
      const twin = await findAnswer(session, seals, key(of));
      if (twin !== undefined) return { next: inventory, answer: twin as Changed };
      const { set } = allowed(place(inventory, candidate));
      const sealed = await seals.sealSet(inventory, set, {
        accessKeyId: fields['access-key-id'],
        secretAccessKey: fields['secret-access-key'],
      });
      const next = placed(inventory, sealed);
      const answer = { ...recordOf(sealed, next), inventory_generation: next.generation };
      const keep = (inside: Session) => keepAnswer(inside, seals, key(of), answer);
      const outcome = `${set.setId} generation ${set.generation}`;
      return { next, answer, beside: beside(call, operation, capsule, outcome, keep) };
    });
  }

  return {
    'capsule.credential.list': async (call, { capsule_id }) => {
      const inventory = await custody.read(capsule_id, lifeOf(call, capsule_id));
      const { generation, selected } = inventory;
      const sets = inventory.sets.toSorted((a, b) => (a.name < b.name ? -1 : 1));
      return {
        inventory_generation: generation,
        selected,
        sets: sets.map((set) => recordOf(set, inventory)),
      };
    },
    'capsule.credential.create': (call, request) => {
      const { capsule_id: capsule, name, fields, expected_inventory_generation: expected } = request;
      const setId = `ocs_${random(16).toString('base64url')}`;
      return submit(call, {
        operation: 'capsule.credential.create',
        ...{ capsule, fields, idempotencyKey: request.idempotency_key },
        request: [name, request.form_version, expected, spelt(fields)],
        place: (inventory, candidate) =>
          placeCreate(inventory, { name, expected, candidate, setId, most: MAX_SETS }),
      });
    },
    'capsule.credential.rotate': (call, request) => {
      const { capsule_id: capsule, set_id: setId, fields, expected_generation: expected } = request;
      return submit(call, {
        operation: 'capsule.credential.rotate',
        ...{ capsule, fields, idempotencyKey: request.idempotency_key },
        request: [setId, request.form_version, expected, spelt(fields)],
        place: (inventory, candidate) => placeRotate(inventory, { setId, expected, candidate }),
      });
    },
    'capsule.credential.select': (call, { capsule_id, set_id, expected_inventory_generation: expected }) =>
      custody.change(capsule_id, async (session, current) => {
        const inventory = current(await lifeOf(call, capsule_id)(session));
        const { next } = allowed(select(inventory, { setId: set_id, expected }));
        // What cannot be opened must not become what everything depends on.
        if (set_id !== null) await custody.reveal(inventory, set_id);
        const answer = { selected: set_id, inventory_generation: next.generation };
        const outcome = set_id ?? 'managed';
        return { next, answer, beside: beside(call, 'capsule.credential.select', capsule_id, outcome) };
      }),
    'capsule.credential.delete': (call, { capsule_id, set_id, expected_generation: expected }) =>
      custody.change(capsule_id, async (session, current) => {
        const inventory = current(await lifeOf(call, capsule_id)(session));
        const tombstone = await readTombstone(session, capsule_id, set_id);
        const { next, alreadyAbsent } = allowed(remove(inventory, { setId: set_id, expected, tombstone }));
        const answer = {
          deleted: set_id,
          inventory_generation: next.generation,
          ...(alreadyAbsent ? { already_absent: true as const } : {}),
        };
        const outcome = `${set_id} ${alreadyAbsent ? 'already absent' : 'deleted'}`;
        return { next, answer, beside: beside(call, 'capsule.credential.delete', capsule_id, outcome) };
      }),
  };
}

/** Leaves nothing of a Capsule that is being dropped in custody, in whatever state it is; may be run again. */
export async function clearCustody(custody: Custody, capsule: string): Promise<void> {
  try {
    await clearBelieved(custody, capsule);
  } catch (error) {
    // Damage must not keep a Capsule from being dropped; a bucket that is away may, for a while.
    const damaged = error instanceof ServiceError && error.retryAfter === undefined;
    if (!damaged || !error.code.startsWith('custody_')) throw error;
    await discard(custody, capsule);
  }
}

function clearBelieved(custody: Custody, capsule: string): Promise<void> {
  return custody.change(capsule, async (_session, current) => {
    const inventory = current('stored');
    return { next: isEmpty(inventory) ? inventory : clear(inventory, inventory.life), answer: undefined };
  });
}

function allowed<Next extends object>(decision: Decision<Next>): Next {
  if (decision.refused === undefined) return decision;
  throw new ServiceError(decision.refused, 'the inventory does not allow it');
}

function spelt(fields: Fields): string[] {
  return [
    fields.endpoint,
    fields.region,
    fields.bucket,
    fields.addressing,
    fields['access-key-id'],
    fields['secret-access-key'],
  ];
}

function recordOf(set: SealedSet, { selected }: Inventory): CredentialRecord {
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
