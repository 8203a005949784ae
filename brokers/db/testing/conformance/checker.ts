/** Replays what a real registry's log says against the model of the broker. */
import { type Conformance, Trace } from '../../../../testing/conformance.ts';
import { type Changes, watchChanges } from '../../../../testing/postgres/changes.ts';
import type { Transaction } from '../../../../testing/postgres/pgoutput.ts';
import { wrongAudits } from './audits.ts';
import { applied, type Committed, committedOf, emptyRegistry, type Registry } from './registry.ts';
import { wrongRows } from './rules.ts';

const TABLES = ['capsule', 'database', 'retired_principal', 'audit'];

/** The answer to a caller. */
interface Told {
  readonly capsule: string;
  /** The database that it may use, or that is dropped. */
  readonly name: string;
  readonly is: 'ready' | 'dropped';
}

export interface RegistryChecker {
  /** The answer is judged by the log as it is then. */
  told(answer: Told): void;
  /** Checks the commits and answers since the last call. */
  check(): Promise<Conformance>;
  close(): Promise<void>;
}

/** Begins with an empty registry: before the first Capsule. */
export async function watchRegistry(registryUrl: string): Promise<RegistryChecker> {
  const changes: Changes = await watchChanges(registryUrl, TABLES);
  const replay = new RegistryReplay();
  let answers: Told[] = [];
  return {
    told: (answer) => answers.push(answer),
    check: async () => {
      // Answers before the log is read belong to earlier commits.
      const before = answers;
      answers = [];
      for (const transaction of await changes.read()) replay.take(transaction);
      for (const answer of before) replay.answered(answer);
      return replay.conformance;
    },
    close: changes.close,
  };
}

/** The registry as the transactions so far have made it. */
class RegistryReplay {
  #registry: Registry = emptyRegistry();
  readonly #trace = new Trace();
  /** Names that were ready once, and those that were dropped. */
  readonly #were = { ready: new Set<string>(), dropped: new Set<string>() };

  get conformance(): Conformance {
    return this.#trace.conformance;
  }

  take(transaction: Transaction): void {
    const done = committedOf(transaction);
    const wrong = wrongRows(this.#registry, done) ?? wrongAudits(this.#registry, done);
    let said = false;
    for (const [capsule, event] of eventsOf(done)) {
      this.#trace.saw(capsule, event, said ? undefined : wrong);
      said = true;
    }
    for (const { after } of done.databases) {
      if (after?.state === 'ready') this.#were.ready.add(after.name);
      if (after?.state === 'dropped') this.#were.dropped.add(after.name);
    }
    this.#registry = applied(this.#registry, done);
  }

  answered({ capsule, name, is }: Told): void {
    const known = this.#were[is].has(name);
    this.#trace.saw(capsule, `told that ${name} is ${is}`, known ? undefined : 'told what never was');
  }
}

function eventsOf({ capsules, databases, retired, audits }: Committed): [capsule: string, event: string][] {
  const way = (before: { state: string } | undefined, after: { state: string } | undefined) =>
    `${before?.state ?? 'nothing'} to ${after?.state ?? 'nothing'}`;
  const first = capsules[0]?.key ?? databases[0]?.after?.capsule ?? audits[0]?.capsule ?? '';
  return [
    ...capsules.map(({ key, before, after }): [string, string] => [
      key,
      `Capsule from ${way(before, after)}, incarnation ${after?.incarnation}`,
    ]),
    ...databases.map(({ key, before, after }): [string, string] => [
      after?.capsule ?? before?.capsule ?? '',
      `${key} from ${way(before, after)}, generation ${after?.generation}, ${after?.name}`,
    ]),
    ...retired.map((): [string, string] => [first, 'a principal is retired']),
    ...audits.map(({ operation, capsule, app, outcome }): [string, string] => [
      capsule,
      `audit: ${operation} ${app} ${outcome}`,
    ]),
  ];
}
