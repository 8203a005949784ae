import { loadavg } from 'node:os';
import { quantile, type Report, type Row } from '../testing/report.ts';
import type { Act } from './neighbours/acts.ts';
import { openDbBroker } from './neighbours/database.ts';
import { type Elsewhere, openElsewhere } from './neighbours/elsewhere.ts';
import { openGateway } from './neighbours/gateway.ts';
import { startHostile } from './neighbours/hostile.ts';
import { openObjectStore } from './neighbours/objectstore.ts';
import { openPostgres } from './neighbours/postgres.ts';
import { type Latencies, measure } from './neighbours/quiet.ts';
import type { OpenServiceUnderTest, ServiceUnderTest } from './neighbours/service-under-test.ts';

/**
 * Measures what a hostile tenant costs a quiet one, for each resource that they share: the p99 of the quiet one alone, and
 * beside a neighbour that uses its limits. The services run as in their pods, with the default limits. The hostile tenant is a
 * process of its own with the lowest priority and bounded rates; it connects from other loopback addresses, like other pods.
 * `--only gateway,postgres/processor` measures only these.
 */

const SERVICES: Readonly<Record<string, OpenServiceUnderTest>> = {
  'db-broker': openDbBroker,
  postgres: openPostgres,
  objectstore: openObjectStore,
  gateway: openGateway,
};
/** Beside a hostile neighbour, p99 may be at most this many times its value alone, and no request may fail. */
const MOST_RATIO = 3;

interface Plan {
  /** Measured before and after the hostile acts, so that a slow moment of the machine affects both sides. */
  readonly aloneSeconds: number;
  readonly besideSeconds: number;
}
const QUICK: Plan = { aloneSeconds: 0.5, besideSeconds: 1.5 };
const WHOLE: Plan = { aloneSeconds: 3, besideSeconds: 6 };

interface Options {
  readonly quick: boolean;
  readonly only?: readonly string[] | undefined;
}

export async function run({ quick, only }: Options): Promise<Report> {
  const unknown = only?.find((part) => SERVICES[part.split('/')[0] ?? ''] === undefined);
  if (unknown !== undefined)
    throw new Error(
      `--only names the unknown part ${unknown}; the parts are ${Object.keys(SERVICES).join(', ')}, and PART/ACT for one act of a part`,
    );
  const wanted = (part: string) =>
    only === undefined || only.some((one) => part === one || part.startsWith(`${one}/`));
  const rows: Row[] = [];
  const figures: Record<string, number> = {};
  const elsewhere = await openElsewhere();
  try {
    for (const [name, open] of Object.entries(SERVICES)) {
      if (only !== undefined && !only.some((one) => one.split('/')[0] === name)) continue;
      const service = await open();
      try {
        await warm(service.habits);
        if (service.straight !== undefined) await warm(service.straight.habits);
        for (const act of Object.keys(service.hostile)) {
          const part = `${name}/${act}`;
          if (wanted(part))
            await beside({ service, elsewhere }, part, act, quick ? QUICK : WHOLE, rows, figures);
        }
      } finally {
        await service.close();
      }
    }
  } finally {
    await elsewhere.close();
  }
  const missed = rows.filter(({ goal }) => goal !== 'met').length;
  return {
    title: 'Latency of a quiet tenant alone, and beside a hostile one that uses its limits (milliseconds)',
    rows,
    figures: { ...figures, measured: rows.length, missed },
    notes: [
      `The goal of each row is a p99 of at most ${MOST_RATIO} times the p99 alone, and no failure.`,
      'The columns “elsewhere” are of the same quiet tenant while the hostile one sends the same to a server that does nothing, and its SQL sessions only compute. They show what the shared machine alone costs.',
      'The columns “straight” are of the same quiet tenant and the same load sent to the S3 server directly. They show what the machine and that server cost without the broker.',
      'The hostile process runs at nice 19 and sends at bounded rates; PostgreSQL runs its statements at the usual priority. Clients and servers share one machine, over loopback and without TLS.',
    ],
  };
}

async function beside(
  { service, elsewhere }: { readonly service: ServiceUnderTest; readonly elsewhere: Elsewhere },
  part: string,
  act: string,
  plan: Plan,
  rows: Row[],
  figures: Record<string, number>,
): Promise<void> {
  const told = service.hostile[act] ?? [];
  const acts = typeof told === 'function' ? await told() : told;
  const { alone: alones, taken, became } = await compare(service.habits, acts, plan, service);
  const machine = await compare(service.habits, elsewhere.of(acts), plan, service);
  const around = service.straight?.hostile[act];
  const straight =
    service.straight === undefined || around === undefined
      ? undefined
      : await compare(service.straight.habits, around(), plan, service);
  for (const [i, habit] of service.habits.entries()) {
    const alone = alones[i] ?? [];
    const { ms = [], failures = 0 } = taken[i] ?? {};
    const [p99, p50, p99Alone] = [quantile(ms, 0.99), quantile(ms, 0.5), quantile(alone, 0.99)];
    const row: Row = {
      'hostile neighbour': part,
      'quiet tenant': habit.name,
      n: ms.length,
      failures,
      'p99 alone': round(p99Alone),
      'p50 beside': round(p50),
      'p99 beside': round(p99),
      ratio: round(p99 / p99Alone),
      ...ratioOf('elsewhere', machine, i),
      ...ratioOf('straight', straight, i),
      goal: failures === 0 && p99 <= MOST_RATIO * p99Alone ? 'met' : 'missed',
      'results of its acts': inWords(became),
    };
    rows.push(row);
    console.error(`${JSON.stringify(row)}, load ${loadavg()[0]?.toFixed(1)}`);
    const key = `${part} ${habit.name}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_');
    figures[`${key}_alone_p99_ms`] = round(p99Alone);
    figures[`${key}_beside_p99_ms`] = round(p99);
    figures[`${key}_elsewhere_p99_ms`] = round(quantile(machine.taken[i]?.ms ?? [], 0.99));
    figures[`${key}_failures`] = failures;
  }
}

/** Columns of a comparison measurement. Only what exceeds its ratio is caused by the service itself. */
function ratioOf(name: 'elsewhere' | 'straight', compared: Compared | undefined, i: number) {
  const row = (alone: number | '-', beside: number | '-', ratio: number | '-') => ({
    [`${name} p99 alone`]: alone,
    [`${name} p99 beside`]: beside,
    [`${name} ratio`]: ratio,
  });
  if (compared === undefined) return row('-', '-', '-');
  const alone = quantile(compared.alone[i] ?? [], 0.99);
  const beside = quantile(compared.taken[i]?.ms ?? [], 0.99);
  return row(round(alone), round(beside), round(beside / alone));
}

interface Compared {
  /** Milliseconds, of each habit. */
  readonly alone: readonly (readonly number[])[];
  readonly taken: readonly Latencies[];
  readonly became: Readonly<Record<string, number>>;
}

async function compare(
  habits: ServiceUnderTest['habits'],
  acts: readonly Act[],
  { aloneSeconds, besideSeconds }: Plan,
  { settle }: Pick<ServiceUnderTest, 'settle'>,
): Promise<Compared> {
  const before = await measure(habits, aloneSeconds);
  const hostile = await startHostile(acts);
  let taken: readonly Latencies[];
  let became: Readonly<Record<string, number>> = {};
  try {
    taken = await measure(habits, besideSeconds);
  } finally {
    became = await hostile.end();
  }
  await settle();
  const after = await measure(habits, aloneSeconds);
  const alone = habits.map((_, i) => [before[i], after[i]].flatMap((one) => one?.ms ?? []));
  return { alone, taken, became };
}

const inWords = (became: Readonly<Record<string, number>>): string =>
  Object.entries(became)
    .map(([what, count]) => `${what} ${count}`)
    .join(', ');

/** Runs the habits until code is compiled, connections are open and caches are filled. */
async function warm(habits: ServiceUnderTest['habits']): Promise<void> {
  await measure(
    habits.map((habit) => ({ ...habit, perSecond: habit.perSecond * 2 })),
    2,
  );
}

const round = (value: number): number => Math.round(value * 10) / 10;
