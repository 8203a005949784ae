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
  type Decision,
  type Placed,
  placeCreate,
  placed,
  placeRotate,
  remove,
  select,
} from '../custody/changes.ts';
import type { Custody } from '../custody/custody.ts';
import type { Inventory, SealedSet } from '../custody/inventory.ts';
import type { InventoryChange } from '../custody/locked.ts';
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

  /** Which incarnation of the Capsule the caller may act for; in a transaction that writes, whether it still may. */
  const authorise = async (session: Session, call: Call, capsule: string): Promise<number> =>
    (await capsules.authorise(session, call, capsule, 'apps')).incarnation;

  /** What is written with a change: the principal may have been retired since it began, and what is done is noted. */
  async function note(
    session: Session,
    call: Call,
    entry: { readonly operation: string; readonly capsule: string; readonly outcome: string },
  ): Promise<void> {
    await authorise(session, call, entry.capsule);
    await audit(session, { ...about(call, entry.operation, 'capsule'), ...entry });
  }

  /** Answers as before, once whatever the first attempt left undone is done. */
  async function repeat(call: Call, capsule: string, answer: unknown): Promise<Changed> {
    return custody.change(capsule, async (change) => {
      change.read(await authorise(change.session, call, capsule));
      return answer as Changed;
    });
  }

  function candidateOf(fields: Fields): Candidate {
    const { endpoint, region, bucket, addressing } = fields;
    return {
      ...{ endpoint, region, bucket, addressing },
      formVersion: 1,
      fingerprint: custody.seals().fingerprint(fields['access-key-id']),
      verifiedAt: now().getTime(),
    };
  }

  async function submit(call: Call, submission: Submission): Promise<Changed> {
    const { capsule, fields, place } = submission;
    const answered = () =>
      connections.transaction(async (session) =>
        findAnswer(session, custody.seals(), keyOf(submission, await authorise(session, call, capsule))),
      );
    const known = await answered();
    if (known !== undefined) return repeat(call, capsule, known);

    const candidate = candidateOf(fields);
    // What would be refused anyway is not tried out on somebody's server.
    const current = await custody.read(capsule, (session) => authorise(session, call, capsule));
    const early = place(current, candidate);
    if (early.refused !== undefined) {
      // The same request may have come a moment ago, and left the very state that refuses this one.
      const twin = await answered();
      if (twin !== undefined) return repeat(call, capsule, twin);
      allowed(early);
    }
    const check = await trial(capsule, fields);
    if (check !== undefined) throw new ServiceError('verification_failed', `candidate: ${check}`, { check });
    return custody.change(capsule, (change) => put(call, submission, candidate, change));
  }

  /** Puts a verified candidate in its place. */
  async function put(
    call: Call,
    submission: Submission,
    candidate: Candidate,
    change: InventoryChange,
  ): Promise<Changed> {
    const { operation, capsule, fields } = submission;
    const seals = custody.seals();
    const incarnation = await authorise(change.session, call, capsule);
    const inventory = change.read(incarnation);
    const key = keyOf(submission, incarnation);
    const twin = await findAnswer(change.session, seals, key);
    if (twin !== undefined) return twin as Changed;
    const { set } = allowed(submission.place(inventory, candidate));
    const sealed = await seals.sealSet(inventory, set, {
      accessKeyId: fields['access-key-id'],
      secretAccessKey: fields['secret-access-key'],
    });
    const next = placed(inventory, sealed);
    const answer = { ...recordOf(sealed, next), inventory_generation: next.generation };
    await change.commit(next, async (session) => {
      await note(session, call, { operation, capsule, outcome: `${set.setId} generation ${set.generation}` });
      await keepAnswer(session, seals, key, answer);
    });
    return answer;
  }

  return {
    'capsule.credential.list': async (call, { capsule_id }) => {
      const inventory = await custody.read(capsule_id, (session) => authorise(session, call, capsule_id));
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
      custody.change(capsule_id, async (change) => {
        const inventory = change.read(await authorise(change.session, call, capsule_id));
        const { next } = allowed(select(inventory, { setId: set_id, expected }));
        // What cannot be opened must not become what everything depends on.
        if (set_id !== null) await custody.reveal(inventory, set_id);
        const operation = 'capsule.credential.select';
        await change.commit(next, (session) =>
          note(session, call, { operation, capsule: capsule_id, outcome: set_id ?? 'managed' }),
        );
        return { selected: set_id, inventory_generation: next.generation };
      }),
    'capsule.credential.delete': (call, { capsule_id, set_id, expected_generation: expected }) =>
      custody.change(capsule_id, async (change) => {
        const inventory = change.read(await authorise(change.session, call, capsule_id));
        const tombstone = await readTombstone(change.session, capsule_id, set_id);
        const { next, alreadyAbsent } = allowed(remove(inventory, { setId: set_id, expected, tombstone }));
        const operation = 'capsule.credential.delete';
        const outcome = `${set_id} ${alreadyAbsent ? 'already absent' : 'deleted'}`;
        await change.commit(next, (session) =>
          note(session, call, { operation, capsule: capsule_id, outcome }),
        );
        return {
          deleted: set_id,
          inventory_generation: next.generation,
          ...(alreadyAbsent ? { already_absent: true as const } : {}),
        };
      }),
  };
}

/** The submission's own request, so that the same one is answered once; all of it in a fixed order. */
function keyOf({ operation, capsule, idempotencyKey, request }: Submission, incarnation: number): RequestKey {
  return { capsule, incarnation, idempotencyKey, request: JSON.stringify([operation, request]) };
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
