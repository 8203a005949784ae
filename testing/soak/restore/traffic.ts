/** Transactions and uploads, each caller one after the other, counted beside a backup and without. */
import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from '../../../brokers/db/testing/postgres.ts';
import type { S3Client } from '../../../brokers/objectstore/upstream/types.ts';
import type { Tenant } from './tenants.ts';

/** The throughput in percent of that without the work, and how long the work took, in seconds. */
export interface Cost {
  readonly seconds: number;
  readonly transactions: number;
  readonly uploads: number;
  /** Which is lost, of both. */
  readonly percent: number;
}

const WRITERS = 4;
const UPLOADERS = 2;
const UPLOAD = randomBytes(64 * 1024);
const BODY = randomBytes(128).toString('hex');
const ALONE_MS = 15_000;

/** Alone, beside the work, and alone again, since a machine is not as fast at one time as at another. */
export async function costOf(
  tenants: readonly Tenant[],
  bucket: S3Client,
  work: () => Promise<unknown>,
): Promise<Cost> {
  const rates = (during: () => Promise<unknown>) => ratesDuring(tenants, bucket, during);
  const alone = () => rates(() => wait(ALONE_MS));
  const first = await alone();
  const beside = await rates(work);
  const second = await alone();
  const part = (rate: 'transactions' | 'uploads') => (200 * beside[rate]) / (first[rate] + second[rate]);
  const [transactions, uploads] = [part('transactions'), part('uploads')];
  return { seconds: beside.seconds, transactions, uploads, percent: 100 - (transactions + uploads) / 2 };
}

async function ratesDuring(tenants: readonly Tenant[], bucket: S3Client, work: () => Promise<unknown>) {
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
  const started = performance.now();
  const callers = [...tenants.slice(0, WRITERS).map(writer), ...[...Array(UPLOADERS).keys()].map(uploader)];
  const failure = Promise.all(callers).then(() => new Promise<never>(() => undefined));
  try {
    await Promise.race([work(), failure]);
  } finally {
    over = true;
    await Promise.allSettled(callers);
  }
  const seconds = (performance.now() - started) / 1_000;
  return {
    transactions: counted.transactions / seconds,
    uploads: counted.uploads / seconds,
    seconds,
  };
}
