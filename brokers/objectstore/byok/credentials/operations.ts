import { randomBytes } from 'node:crypto';
import type { Handlers } from '@space/broker-kit/control';
import { about, audit } from '@space/broker-kit/principals';
import { type CREDENTIALS, type Fields, MAX_SETS, type OBJECT_STORE } from '@space/contracts/objectstore';
import type { CapsuleAuthority } from '../../principals/authority.ts';
import { planCreate, planRotate, remove, select } from '../custody/changes.ts';
import { readTombstone } from '../custody/rows.ts';
import { allowed, type Permit, recordOf, type SubmissionOptions, Submissions } from './submissions.ts';

export interface CredentialOptions extends SubmissionOptions {
  readonly capsules: Pick<CapsuleAuthority, 'authorise'>;
  readonly random?: (bytes: number) => Buffer;
}

/** The five operations on a Capsule's own credential sets. */
export function credentialHandlers(
  options: CredentialOptions,
): Pick<Handlers<typeof OBJECT_STORE>, keyof typeof CREDENTIALS> {
  const { custody, capsules, random = randomBytes } = options;

  const permit: Permit = {
    authorise: async (session, call, capsule) =>
      (await capsules.authorise(session, call, capsule, 'apps')).incarnation,
    note: async (session, call, entry) => {
      await permit.authorise(session, call, entry.capsule);
      await audit(session, { ...about(call, entry.operation, 'capsule'), ...entry });
    },
  };
  const { authorise, note } = permit;
  const submissions = new Submissions(options, permit);

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
      return submissions.submit(call, {
        operation: 'capsule.credential.create',
        ...{ capsule, fields, idempotencyKey: request.idempotency_key },
        request: [name, request.form_version, expected, spelt(fields)],
        plan: (inventory, candidate) =>
          planCreate(inventory, { name, expected, candidate, setId, most: MAX_SETS }),
      });
    },
    'capsule.credential.rotate': (call, request) => {
      const { capsule_id: capsule, set_id: setId, fields, expected_generation: expected } = request;
      return submissions.submit(call, {
        operation: 'capsule.credential.rotate',
        ...{ capsule, fields, idempotencyKey: request.idempotency_key },
        request: [setId, request.form_version, expected, spelt(fields)],
        plan: (inventory, candidate) => planRotate(inventory, { setId, expected, candidate }),
      });
    },
    'capsule.credential.select': (call, { capsule_id, set_id, expected_inventory_generation: expected }) =>
      custody.change(capsule_id, async (change) => {
        const inventory = change.read(await authorise(change.session, call, capsule_id));
        const { next } = allowed(select(inventory, { setId: set_id, expected }));
        // A set whose values cannot be opened must not be selected.
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
