import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import type { S3Place } from '../../../brokers/objectstore/testing/broker.ts';
import type { Random } from '../../random.ts';
import { contentOf } from './ask.ts';
import { Ledger } from './ledger.ts';
import { LIMIT_MS, PAUSE_MS } from './watch.ts';

/** A bucket of its own, since the other one belongs to the brokers alone. */
export const CONTROL_BUCKET = 'control';
const MOST_BYTES = 4 * 1_024 * 1_024;
const LARGEST_BYTES = 48 * 1_024;

/**
 * A client that uses the S3 server directly with the SDK. Its untrue answers are losses of the server itself, which
 * distinguishes them from losses of the brokers.
 */
export class Control {
  readonly ledger = new Ledger();
  readonly lost: string[] = [];
  readonly #s3: S3Client;
  readonly #random: Random;
  #made = 0;

  constructor(place: S3Place, random: Random) {
    const { endpoint, region, accessKeyId, secretAccessKey } = place;
    const credentials = { accessKeyId, secretAccessKey };
    this.#s3 = new S3Client({ endpoint, region, credentials, forcePathStyle: true, maxAttempts: 1 });
    this.#random = random;
  }

  /** Runs until `ended` returns true. */
  async run(ended: () => boolean): Promise<void> {
    while (!ended()) await this.#act();
  }

  /** Reads and lists everything that was ever confirmed. */
  async verify(): Promise<void> {
    for (const key of [...this.ledger.keys(), ...this.ledger.gone()]) await this.#read(key);
    await this.#list();
    this.#s3.destroy();
  }

  async #act(): Promise<void> {
    const writable = this.ledger.writable();
    const known = writable[this.#random(writable.length)];
    const die = this.#random(100);
    if (known === undefined || (die < 40 && this.ledger.bytes < MOST_BYTES)) return this.#put(this.#newKey());
    if (die < 50) return this.#put(known);
    if (die < 70) return this.#delete(known);
    if (die < 80) return this.#list();
    return this.#read(known);
  }

  async #put(key: string): Promise<void> {
    const bytes = randomBytes(1 + this.#random(LARGEST_BYTES));
    const { tries } = await insist(() => this.#s3.send(new PutObjectCommand({ ...at(key), Body: bytes })));
    this.ledger.stored(key, contentOf(bytes), tries);
  }

  async #delete(key: string): Promise<void> {
    const { tries } = await insist(() => this.#s3.send(new DeleteObjectCommand(at(key))));
    this.ledger.deleted(key, tries);
    await this.#read(key);
  }

  async #read(key: string): Promise<void> {
    const { value } = await insist(async () => {
      try {
        const { Body } = await this.#s3.send(new GetObjectCommand(at(key)));
        return Body === undefined ? undefined : contentOf(await Body.transformToByteArray());
      } catch (error) {
        if (error instanceof S3ServiceException && error.name === 'NoSuchKey') return undefined;
        throw error;
      }
    });
    const wrong = this.ledger.judgeRead(key, value);
    if (wrong !== undefined) this.lost.push(wrong);
  }

  async #list(): Promise<void> {
    const listed: { key: string; size: number }[] = [];
    let token: string | undefined;
    do {
      const query = { Bucket: CONTROL_BUCKET, ContinuationToken: token };
      const { value } = await insist(() => this.#s3.send(new ListObjectsV2Command(query)));
      for (const { Key = '', Size = 0 } of value.Contents ?? []) listed.push({ key: Key, size: Size });
      token = value.NextContinuationToken;
    } while (token !== undefined);
    this.lost.push(...this.ledger.judgeList('', listed));
  }

  #newKey(): string {
    this.#made += 1;
    return `o${this.#made}`;
  }
}

const at = (Key: string) => ({ Bucket: CONTROL_BUCKET, Key });

/** Repeats the call until it succeeds. */
async function insist<T>(call: () => Promise<T>): Promise<{ readonly value: T; readonly tries: number }> {
  const begun = performance.now();
  for (let tries = 1; ; tries += 1) {
    try {
      return { value: await call(), tries };
    } catch (error) {
      if (performance.now() - begun > LIMIT_MS)
        throw new Error(`the S3 server gave no good answer for ${LIMIT_MS / 1_000} s`, { cause: error });
      await wait(PAUSE_MS);
    }
  }
}
