import type { Report, Row } from '../testing/report.ts';
import { type Contestant, startContestants } from './objectstore/contestants.ts';
import {
  closedLoop,
  isLong,
  KIB,
  type Load,
  type Measured,
  type Method,
  MIB,
  steadyRate,
  store,
} from './objectstore/load.ts';
import { byP99, byRate, label, lineOf, middle, rowOf, type Target, targetsOf } from './objectstore/tell.ts';

/**
 * Compares the object-storage broker with direct requests to the S3 server, with two other gateways in front of the same
 * server, and with a program that only passes requests on, which is the most that Node can reach. They take turns on one machine:
 * GET and PUT of small, medium and large objects by one and many clients, small GETs at a fixed rate, and the broker's memory with many streams. Ratios refer to direct requests; the load generator shares the machine
 * with all of them. `--only get-1kib,rate` measures only these parts.
 */

interface Plan {
  readonly sizes: readonly number[];
  readonly clients: readonly number[];
  /** Rounds alternate between gateways, so that a slow moment of the machine affects all; the median round is reported. */
  readonly rounds: number;
  readonly seconds: number;
  readonly streamBytes: number;
  readonly streamSeconds: number;
}

const QUICK: Plan = {
  sizes: [KIB, MIB, 16 * MIB],
  clients: [1, 16],
  rounds: 1,
  seconds: 0.5,
  streamBytes: 64 * MIB,
  streamSeconds: 1,
};
const WHOLE: Plan = {
  sizes: [KIB, MIB, 256 * MIB],
  clients: [1, 16, 64],
  rounds: 3,
  seconds: 1.5,
  streamBytes: 1024 * MIB,
  streamSeconds: 8,
};
const METHODS: readonly Method[] = ['PUT', 'GET'];
const STREAMS = 64;
/** The fixed rate, in requests a second, which each of them can serve. */
const STEADY_RATE = 1_000;
const STEADY_CLIENTS = 64;

interface Options {
  readonly quick: boolean;
  readonly only?: readonly string[] | undefined;
}

export async function run({ quick, only }: Options): Promise<Report> {
  const plan = quick ? QUICK : WHOLE;
  const parts = partsOf(plan);
  const unknown = only?.find((name) => !parts.includes(name));
  if (unknown !== undefined)
    throw new Error(`--only names the unknown part ${unknown}; the parts are ${parts.join(', ')}`);
  const wanted = (name: string) => only === undefined || only.includes(name);

  const contestants = await startContestants();
  const { broker, stop } = contestants;
  try {
    const told: Told = { rows: [], figures: {}, targets: [] };
    const run: BenchRun = { plan, contestants, told };
    for (const size of plan.sizes)
      for (const method of METHODS) if (wanted(partOf(method, size))) await measureLoops(run, method, size);
    if (wanted('rate')) await measureRate(run);
    if (wanted('streams')) await measureStreams(run);
    const { rows, figures, targets } = told;
    const peak = Math.round(broker.program.peakMib());
    figures['broker_peak_rss_mib'] = peak;
    targets.push({
      what: "the broker's peak memory in this run is at most 200 MiB",
      at: `${peak} MiB`,
      met: peak <= 200,
    });
    return {
      title: 'Objects through the broker and other gateways, in front of one S3 server, over loopback',
      rows,
      figures: { ...figures, targets_missed: targets.filter(({ met }) => !met).length },
      notes: [
        `Bodies over ${label(MIB)} are measured by their bytes and cut off when the time is over, so they have no latencies. The gateways take turns, ${plan.rounds} times; each row is the median round of one of them. In a closed loop, latency is the number of clients divided by the rate; at a fixed rate, each request is timed from when it was due.`,
        targets.map(({ what, at, met }) => `${met ? 'met   ' : 'MISSED'}  ${what}: ${at}`).join('\n'),
      ],
    };
  } finally {
    await stop();
  }
}

interface Told {
  readonly rows: Row[];
  readonly figures: Record<string, number>;
  readonly targets: Target[];
}

interface BenchRun {
  readonly plan: Plan;
  readonly contestants: Awaited<ReturnType<typeof startContestants>>;
  readonly told: Told;
}

/** Adds a row and a figure for each contestant, compared with direct requests. */
async function compare(
  { plan, contestants: { all }, told: { rows, figures, targets } }: BenchRun,
  what: string,
  measure: (one: Contestant) => Promise<Measured>,
  by = byRate,
): Promise<void> {
  const rounds = new Map(all.map(({ name }): [string, Measured[]] => [name, []]));
  for (let round = 0; round < plan.rounds; round += 1)
    for (const contestant of all) rounds.get(contestant.name)?.push(await measure(contestant));
  const results = new Map([...rounds].map(([name, measured]) => [name, middle(measured, by)]));
  for (const [name, one] of results) console.error(lineOf(what, name, one));
  for (const [name, one] of results) rows.push(rowOf(what, name, one, results, figures));
  targets.push(...targetsOf(what, results));
}

/** Programs with a just-in-time compiler need some ten thousand requests to become fast, again after each pause. */
async function warm({ plan, contestants: { all } }: BenchRun, method: Method, size: number): Promise<void> {
  for (const one of all) await closedLoop(one, { method, size, clients: 16, seconds: 3 * plan.seconds });
}

async function storeByAll({ contestants: { all, settle } }: BenchRun, size: number): Promise<void> {
  for (const contestant of all) await store(contestant, size);
  await settle();
}

async function measureLoops(run: BenchRun, method: Method, size: number): Promise<void> {
  const { plan, contestants } = run;
  if (method === 'GET') await storeByAll(run, size);
  if (!isLong(size)) await warm(run, method, size);
  for (const clients of plan.clients) {
    const load: Load = { method, size, clients, seconds: plan.seconds };
    await compare(run, `${method} ${label(size)} × ${clients}`, (one) => closedLoop(one, load));
    if (method === 'PUT' && isLong(size)) contestants.clear();
  }
}

async function measureRate(run: BenchRun): Promise<void> {
  await storeByAll(run, KIB);
  await warm(run, 'GET', KIB);
  const load = { size: KIB, clients: STEADY_CLIENTS, seconds: 2 * run.plan.seconds };
  await compare(
    run,
    `GET ${label(KIB)} at ${STEADY_RATE}/s`,
    (one) => steadyRate(one, load, STEADY_RATE),
    byP99,
  );
}

async function measureStreams({ plan, contestants, told: { rows, figures } }: BenchRun): Promise<void> {
  const { broker, clear, settle } = contestants;
  const size = plan.streamBytes;
  await store(broker, size);
  for (const method of METHODS) {
    const load = { method, size, clients: STREAMS, seconds: plan.streamSeconds };
    const one = await closedLoop(broker, load);
    const what = `${STREAMS} streams: ${method} ${label(size)}`;
    console.error(lineOf(what, broker.name, one));
    rows.push(rowOf(what, broker.name, one, new Map(), figures));
    if (method === 'PUT') {
      clear();
      await store(broker, size);
      await settle();
    }
  }
}

const partOf = (method: Method, size: number) =>
  `${method.toLowerCase()}-${label(size).toLowerCase().replace(' ', '')}`;

function partsOf({ sizes }: Plan): readonly string[] {
  const loops = sizes.flatMap((size) => METHODS.map((method) => partOf(method, size)));
  return [...loops, 'rate', 'streams'];
}
