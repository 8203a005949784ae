import { runRegistry } from '../../brokers/db/testing/conformance/run.ts';
import { runCustody } from '../../brokers/objectstore/byok/custody/testing/conformance/run.ts';
import type { Conformance } from '../conformance.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** The share of events of the database broker, since creating a database takes longer than changing an inventory. */
const OF_DATABASES = 0.1;
const EVERY_MS = 30_000;
/** Acts between two kills. A starting broker takes processor time from the callers; even so there are hundreds of kills. */
const ACTS = { ofDatabases: 24, ofCustody: 192 };

const toldOf = (what: string, { wrong }: Conformance) =>
  wrong === undefined ? [] : [`${what}: ${wrong.what}\n  ${wrong.trace.join('\n  ')}`];

/**
 * Compares real brokers with their models: every change of the database broker's registry, as PostgreSQL's log has it, and for the
 * custody also every anchor and every answer. Callers act at random, and processes are killed meanwhile.
 */
export async function run({ quick, events: wanted }: SoakOptions): Promise<SoakReport> {
  const events = wanted ?? (quick ? 5_000 : 1_000_000);
  const seed = Date.now() % 2 ** 31;
  const begun = performance.now();
  const progressOf = (what: string) => {
    let next = begun + EVERY_MS;
    return (conformance: Conformance) => {
      if (performance.now() < next) return;
      next = performance.now() + EVERY_MS;
      console.error(`… ${what}: ${conformance.events} events`);
    };
  };
  const ofDatabases = Math.ceil(events * OF_DATABASES);
  const [registry, custody] = await Promise.all([
    runRegistry({
      ...{ events: ofDatabases, seed, onRound: progressOf('database broker') },
      ...(quick ? {} : { acts: ACTS.ofDatabases }),
    }),
    runCustody({
      ...{ events: events - ofDatabases, seed, onRound: progressOf('custody') },
      ...(quick ? {} : { acts: ACTS.ofCustody }),
    }),
  ]);
  const wrongs = [...toldOf('database broker', registry), ...toldOf('custody', custody)];
  const seconds = (performance.now() - begun) / 1000;
  return {
    passed: wrongs.length === 0 && registry.problems.length === 0,
    title:
      'Traces of real brokers, whose processes are killed, compared with their models: PostgreSQL 18, versitygw',
    rows: [
      { what: 'database broker', events: registry.events, kills: registry.killed, restores: 0 },
      { what: 'custody', events: custody.events, kills: custody.killed, restores: custody.setBack },
    ],
    figures: {
      events: registry.events + custody.events,
      violations: wrongs.length,
      census_problems: registry.problems.length,
      seed,
      events_per_second: Math.round((registry.events + custody.events) / seconds),
    },
    notes: [...wrongs, ...registry.problems.slice(0, 10)],
  };
}
