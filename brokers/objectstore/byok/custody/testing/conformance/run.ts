import { setTimeout as wait } from 'node:timers/promises';
import type { Conformance } from '../../../../../../testing/conformance.ts';
import { LOGGED } from '../../../../../../testing/postgres/changes.ts';
import { startEmbeddedServer } from '../../../../../../testing/postgres/server.ts';
import { type Random, seeded } from '../../../../../../testing/random.ts';
import { startDoomed } from '../../../../../db/testing/conformance/acts.ts';
import { intoDatabase } from '../../../../../db/testing/postgres.ts';
import { COMMANDS } from '../../../../commands.ts';
import { type Fixture, openFixtureOn } from '../../../../testing/fixture.ts';
import { spawnBroker } from '../../../../testing/process.ts';
import { startOwnStore } from '../../../credentials/testing/byok.ts';
import { capsuleOf } from './acts.ts';
import { recordAnchors } from './anchors.ts';
import { SET_BACK, watchCustody } from './checker.ts';

export interface RunOptions {
  readonly events: number;
  readonly seed: number;
  readonly capsules?: number;
  /** Of each Capsule between two looks at the log, at which somebody may be killed or set back. */
  readonly acts?: number;
  readonly onRound?: (conformance: Conformance) => void;
}

export interface Ran extends Conformance {
  readonly killed: number;
  readonly setBack: number;
}

const MOST_DELAY_MS = 200;
/** So many changes a broker makes at most, for each act of a Capsule between two looks. */
const CHANGES_FOR_ACT = 2.5;
/** So many of the Capsules are those that are set back, so that even a short run comes to it. */
const SET_BACK_OFTEN = 4;

/** Real brokers on PostgreSQL and an S3 server until so many events were judged, with a kill and a restore among them. */
export async function runCustody({
  events,
  seed,
  capsules = 10,
  acts = 24,
  onRound,
}: RunOptions): Promise<Ran> {
  const random = seeded(seed);
  const store = await startOwnStore();
  const server = await startEmbeddedServer({
    durable: false,
    settings: { ...LOGGED, synchronous_commit: 'on' },
  });
  const fixture = await openFixtureOn(server, { environment: { ...store.environment, LOG_LEVEL: 'silent' } });
  const recorder = await recordAnchors(fixture.s3);
  const environment = { ...fixture.mounts.environment, ...store.environment, S3_ENDPOINT: recorder.endpoint };
  const survivor = await fixture.replica({ environment: { ...environment, LOG_LEVEL: 'silent' } });
  const registryUrl = intoDatabase(server.superuserUrl, 'space_objectstore');
  const checker = await watchCustody(registryUrl, recorder, fixture.mounts.environment['SPACE_NAME'] ?? '');
  // Each kills itself, too: between the two writes of one of its changes.
  const dying = () => ({
    FAILPOINT: 'custody:after-commit',
    FAILPOINT_HIT: `${1 + random(Math.ceil(acts * CHANGES_FOR_ACT))}`,
  });
  const doomed = await startDoomed(() => spawnBroker({ ...environment, ...dying() }), 2);
  const restores = restoresOf(fixture, random);
  try {
    const acting = {
      url: (one: number) => (one === 0 ? undefined : doomed.url(one)) ?? survivor.url,
      store,
      checker,
      random,
    };
    const all = [];
    for (let i = 0; i < capsules; i += 1) {
      const id = `capsule-${i}`;
      all.push(capsuleOf(id, (await fixture.broker.capsule(id)).token ?? '', acting));
    }
    let slow = false;
    recorder.delay = async () => {
      if (slow || random(50) === 0) await wait(random(MOST_DELAY_MS));
    };
    /** Between the two writes of a change, where there is one: its rows are committed, and its anchor is on its way. */
    const killOne = async () => {
      slow = true;
      for (let looks = 0; looks < 200 && recorder.waiting === 0; looks += 1) await wait(5);
      await doomed.killOne(random);
      slow = false;
    };
    let conformance = await checker.check();
    const isEnough = () => conformance.events >= events && doomed.killed > 0 && restores.count() > 0;
    while (!isEnough() && conformance.wrong === undefined) {
      const rounds = all.map(async ({ act }) => {
        for (let done = 0; done < acts; done += 1) await act();
      });
      if (random(2) === 0) rounds.push(killOne());
      await Promise.all(rounds);
      if (random(2) === 0) await restores.step(all[random(SET_BACK_OFTEN)]?.capsule ?? '');
      for (const capsule of restores.open())
        if (random(2) === 0) await restores.decide(survivor.context, capsule);
      conformance = await checker.check();
      onRound?.(conformance);
    }
    return { ...conformance, killed: doomed.killed, setBack: restores.count() };
  } finally {
    await doomed.stop();
    await survivor.stop();
    await checker.close();
    await recorder.close();
    await fixture.close();
    await server.remove();
    await store.remove();
  }
}

/** Keeps the rows of Capsules, puts them back later, and lets an administrator decide. */
function restoresOf({ registry }: Pick<Fixture, 'registry'>, random: Random) {
  const kept = new Map<string, { inventory: unknown; sets: unknown }>();
  const open = new Set<string>();
  let count = 0;
  return {
    open: () => [...open],
    count: () => count,
    /** Keeps what there is, or sets back to what was kept. */
    step: async (capsule: string) => {
      const before = kept.get(capsule);
      if (before === undefined) {
        const [row] = await registry<{ inventory: unknown; sets: unknown }>(
          `SELECT to_jsonb(i) AS inventory, (SELECT coalesce(jsonb_agg(to_jsonb(s)), '[]') FROM broker.credential_set s
             WHERE s.capsule_id = i.capsule_id) AS sets FROM broker.credential_inventory i WHERE capsule_id = $1`,
          [capsule],
        );
        if (row !== undefined) kept.set(capsule, row);
        return;
      }
      kept.delete(capsule);
      open.add(capsule);
      count += 1;
      await registry(setBackStatements(capsule, before));
    },
    decide: async (context: Fixture['broker']['context'], capsule: string) => {
      open.delete(capsule);
      const verb = random(2) === 0 ? 'accept' : 'discard';
      // There may be nothing to accept: nothing had changed since.
      await COMMANDS['restore']
        ?.run(context, 'conformance', [verb, capsule], async () => '')
        .catch(() => undefined);
    },
  };
}

const literal = (value: unknown) => `'${JSON.stringify(value).replaceAll("'", "''")}'::jsonb`;

function setBackStatements(
  capsule: string,
  { inventory, sets }: { inventory: unknown; sets: unknown },
): string {
  return `BEGIN;
    SELECT pg_logical_emit_message(true, '${SET_BACK}', '${capsule}');
    DELETE FROM broker.credential_set WHERE capsule_id = '${capsule}';
    DELETE FROM broker.credential_inventory WHERE capsule_id = '${capsule}';
    INSERT INTO broker.credential_inventory
      SELECT * FROM jsonb_populate_record(NULL::broker.credential_inventory, ${literal(inventory)});
    INSERT INTO broker.credential_set
      SELECT * FROM jsonb_populate_recordset(NULL::broker.credential_set, ${literal(sets)});
    COMMIT;`;
}
