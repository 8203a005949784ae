import { Readable, Writable } from 'node:stream';
import { Pool } from 'undici';
import { type Contestant, startContestants } from './objectstore/contestants.ts';
import { quantile, type Report, type Row } from './report.ts';

/**
 * The object-storage broker beside the S3 server itself and two other gateways in front of the same server, in turns
 * on one machine: GET and PUT of small, middling and large objects by one and many clients, and the broker's memory
 * with many streams. The ratios are to the direct way; the load generator shares the machine with all of them.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

interface Plan {
  readonly sizes: readonly number[];
  readonly clients: readonly number[];
  readonly seconds: number;
  readonly streamBytes: number;
}

const QUICK: Plan = { sizes: [KIB, MIB, 16 * MIB], clients: [1, 16], seconds: 0.7, streamBytes: 16 * MIB };
const WHOLE: Plan = {
  sizes: [KIB, MIB, 256 * MIB],
  clients: [1, 16, 64],
  seconds: 5,
  streamBytes: 1024 * MIB,
};
const STREAMS = 64;
const BLOCK = Buffer.alloc(MIB, 'space');

interface Measured {
  readonly perSecond: number;
  readonly mibPerSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** Of the process in between, per second. */
  readonly cpu: number;
}

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const plan = quick ? QUICK : WHOLE;
  const { all, stop } = await startContestants();
  try {
    const rows: Row[] = [];
    const figures: Record<string, number> = {};
    for (const size of plan.sizes) {
      for (const method of ['PUT', 'GET'] as const) {
        for (const clients of plan.clients) {
          const results = new Map<string, Measured>();
          for (const contestant of all) {
            if (method === 'GET') await store(contestant, size);
            results.set(contestant.name, await measure(contestant, method, size, clients, plan.seconds));
          }
          const direct = results.get('direct');
          if (direct === undefined) throw new Error('nothing to compare with');
          for (const [name, one] of results) {
            const ratio = one.perSecond / direct.perSecond;
            rows.push(rowOf(`${method} ${label(size)} × ${clients}`, name, one, ratio));
            if (name !== 'direct')
              figures[`${key(name)}_${method.toLowerCase()}_${key(label(size))}_${clients}_ratio`] =
                round(ratio);
            figures[`${key(name)}_${method.toLowerCase()}_${key(label(size))}_${clients}_p99_ms`] = round(
              one.p99,
            );
          }
        }
      }
    }
    const broker = all.find(({ name }) => name === 'broker');
    if (broker === undefined) throw new Error('no broker');
    await store(broker, plan.streamBytes);
    await streams(broker, plan.streamBytes);
    figures['broker_peak_rss_mib'] = Math.round(broker.program.peakMib());
    const note = `Broker's peak memory after all of this and ${STREAMS} streams of ${label(plan.streamBytes)} at once: ${figures['broker_peak_rss_mib']} MiB.`;
    return {
      title: 'Objects through the broker and its peers, one S3 server, loopback',
      rows,
      figures,
      notes: [note],
    };
  } finally {
    await stop();
  }
}

const nameOf = (size: number, i = 0) => `object-${size}-${i}`;

async function store(contestant: Contestant, size: number): Promise<void> {
  const pool = new Pool(contestant.origin, { connections: 1, bodyTimeout: 0, headersTimeout: 0 });
  try {
    await put(pool, contestant, size, nameOf(size));
  } finally {
    await pool.destroy();
  }
}

async function measure(
  contestant: Contestant,
  method: 'GET' | 'PUT',
  size: number,
  clients: number,
  seconds: number,
): Promise<Measured> {
  const pool = new Pool(contestant.origin, { connections: clients, bodyTimeout: 0, headersTimeout: 0 });
  const once = (i: number) =>
    method === 'GET'
      ? get(pool, contestant, nameOf(size), size)
      : put(pool, contestant, size, nameOf(size, i));
  try {
    await Promise.all(Array.from({ length: clients }, (_, i) => once(i)));
    const ms: number[] = [];
    const cpuBefore = contestant.program.cpuSeconds();
    const started = performance.now();
    const end = started + seconds * 1_000;
    const worker = async (i: number) => {
      do {
        const begun = performance.now();
        await once(i);
        ms.push(performance.now() - begun);
      } while (performance.now() < end);
    };
    await Promise.all(Array.from({ length: clients }, (_, i) => worker(i)));
    const took = (performance.now() - started) / 1_000;
    return {
      perSecond: ms.length / took,
      mibPerSecond: (ms.length * size) / MIB / took,
      p50: quantile(ms, 0.5),
      p99: quantile(ms, 0.99),
      cpu: (contestant.program.cpuSeconds() - cpuBefore) / took,
    };
  } finally {
    await pool.destroy();
  }
}

async function get(pool: Pool, contestant: Contestant, name: string, size: number): Promise<void> {
  let received = 0;
  const sink = new Writable({
    highWaterMark: MIB,
    write: (chunk: Buffer, _encoding, done) => {
      received += chunk.length;
      done();
    },
  });
  const headers = contestant.headers('GET', name);
  await pool.stream({ method: 'GET', path: contestant.path(name), headers }, ({ statusCode }) => {
    if (statusCode !== 200) throw new Error(`${contestant.name}: GET answered ${statusCode}`);
    return sink;
  });
  if (received !== size) throw new Error(`${contestant.name}: ${received} bytes of ${size}`);
}

async function put(pool: Pool, contestant: Contestant, size: number, name: string): Promise<void> {
  const headers = { ...contestant.headers('PUT', name), 'content-length': String(size) };
  const body = size <= MIB ? BLOCK.subarray(0, size) : Readable.from(blocks(size), { objectMode: false });
  const answer = await pool.request({ method: 'PUT', path: contestant.path(name), headers, body });
  await answer.body.dump();
  if (answer.statusCode !== 200) throw new Error(`${contestant.name}: PUT answered ${answer.statusCode}`);
}

function* blocks(size: number): Generator<Buffer> {
  for (let left = size; left > 0; left -= BLOCK.length) yield BLOCK.subarray(0, left);
}

async function streams(contestant: Contestant, size: number): Promise<void> {
  const pool = new Pool(contestant.origin, { connections: STREAMS, bodyTimeout: 0, headersTimeout: 0 });
  try {
    await Promise.all(Array.from({ length: STREAMS }, () => get(pool, contestant, nameOf(size), size)));
  } finally {
    await pool.destroy();
  }
}

function rowOf(what: string, by: string, one: Measured, ratio: number): Row {
  return {
    what,
    by,
    'per second': round(one.perSecond),
    'MiB/s': round(one.mibPerSecond),
    p50_ms: round(one.p50),
    p99_ms: round(one.p99),
    'CPU of it': round(one.cpu),
    'of direct': `${Math.round(100 * ratio)} %`,
  };
}

const label = (size: number) => (size >= MIB ? `${size / MIB} MiB` : `${size / KIB} KiB`);
const key = (text: string) => text.toLowerCase().replace(/[^a-z0-9]+/g, '_');
const round = (value: number) => Math.round(value * 100) / 100;
