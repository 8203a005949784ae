/** Callers that send transactions and uploads, counted during a backup and without one. */
import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from '../../../brokers/db/testing/postgres.ts';
import type { S3Client } from '../../../brokers/objectstore/upstream/types.ts';
import type { Tenant } from './tenants.ts';

/** The lost throughput, and the seconds that the work took. */
export interface Cost {
  readonly seconds: number;
  readonly transactions: number;
  readonly uploads: number;
  /** The lost throughput of transactions and uploads, in percent. */
  readonly percent: number;
}

const WRITERS = 4;
const UPLOADERS = 2;
const UPLOAD = randomBytes(64 * 1024);
const BODY = randomBytes(128).toString('hex');
const WINDOW_MS = 15_000;
const PAIRS = 10;

/** Programs that can be stopped and continued. */
export interface Pausable {
  signal(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void>;
}

class Tally {
  transactions = 0;
  uploads = 0;
  seconds = 0;

  /** Adds what was counted between two moments. */
  add(before: Counted, now: Counted, seconds: number): void {
    this.transactions += now.transactions - before.transactions;
    this.uploads += now.uploads - before.uploads;
    this.seconds += seconds;
  }
}

type Counted = Readonly<Pick<Tally, 'transactions' | 'uploads'>>;

/**
 * Measures after the traffic has become steady. It is counted alternately with the work and with the work stopped, since tables
 * grow, checkpoints occur and the speed of the machine varies; in this way all of that affects both sides equally.
 */
export async function costOf(
  tenants: readonly Tenant[],
  bucket: S3Client,
  work: () => Promise<unknown>,
  halted: readonly Pausable[],
): Promise<Cost> {
  const traffic = startTraffic(tenants, bucket);
  const [beside, alone] = [new Tally(), new Tally()];
  const signal = (which: 'SIGSTOP' | 'SIGCONT') => Promise.all(halted.map((one) => one.signal(which)));
  await Promise.race([wait(WINDOW_MS), traffic.failure]);
  const started = performance.now();
  let isDone = false;
  const done = work().finally(() => {
    isDone = true;
  });
  try {
    for (let turn = 0; turn < 2 * PAIRS && !isDone; turn += 1) {
      const tally = turn % 2 === 0 ? beside : alone;
      if (tally === alone) await signal('SIGSTOP');
      const [before, since] = [{ ...traffic.counted }, performance.now()];
      await Promise.race([wait(WINDOW_MS), done, traffic.failure]);
      tally.add(before, traffic.counted, (performance.now() - since) / 1_000);
      if (tally === alone) await signal('SIGCONT');
    }
    await Promise.race([done, traffic.failure]);
  } finally {
    await signal('SIGCONT');
    await traffic.stop();
  }
  const seconds = (performance.now() - started) / 1_000 - alone.seconds;
  const part = (rate: keyof Counted) => (100 * beside[rate] * alone.seconds) / (alone[rate] * beside.seconds);
  const [transactions, uploads] = [part('transactions'), part('uploads')];
  return { seconds, transactions, uploads, percent: 100 - (transactions + uploads) / 2 };
}

function startTraffic(tenants: readonly Tenant[], bucket: S3Client) {
  let over = false;
  const counted = { transactions: 0, uploads: 0 };
  const writer = async ({ url }: Tenant) => {
    const client = await connect(url);
    try {
      await client.query('CREATE TABLE IF NOT EXISTS traffic (body text)');
      for (; !over; counted.transactions += 1)
        await client.query('INSERT INTO traffic (body) VALUES ($1)', [BODY]);
    } finally {
      await client.end();
    }
  };
  const uploader = async (number: number) => {
    for (; !over; counted.uploads += 1)
      await bucket.put(`traffic/${number}/${counted.uploads % 100}`, UPLOAD);
  };
  // The first Capsule is restored alone later, so it gets no traffic and keeps its size.
  const callers = [...tenants.slice(-WRITERS).map(writer), ...[...Array(UPLOADERS).keys()].map(uploader)];
  return {
    counted,
    /** Never resolves; rejects if a caller fails. */
    failure: Promise.all(callers).then(() => new Promise<never>(() => undefined)),
    stop: async () => {
      over = true;
      await Promise.allSettled(callers);
    },
  };
}
