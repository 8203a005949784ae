import { Readable } from 'node:stream';
import { Pool } from 'undici';
import type { Contestant } from './contestants.ts';

/** The load generator: one process on the same machine as the contestants, with as little work as possible. */

export const KIB = 1024;
export const MIB = 1024 * KIB;

export type Method = 'GET' | 'PUT';

/** What each caller does, one request after another. */
export interface Load {
  readonly method: Method;
  readonly size: number;
  readonly clients: number;
  readonly seconds: number;
}

export interface Measured {
  readonly perSecond: number;
  readonly mibPerSecond: number;
  /** Latencies until the last byte; empty if bodies are cut off when the time is over. */
  readonly ms: readonly number[];
  /** The processor cores that the gateway, or the server itself, used. */
  readonly cpu: number;
}

/** Time to open connections and fill buffers before the measurement. */
const WARM_SECONDS = 0.5;
const PIECE = Buffer.alloc(64 * KIB, 'space');
const SMALL = Buffer.alloc(MIB, 'space');

const nameOf = (size: number, i = 0) => `object-${size}-${i}`;

/** Large bodies are measured by their bytes, and cut off at the end. */
export const isLong = (size: number) => size > MIB;

/** Runs this many callers, each of which sends its next request as soon as the last one was answered. */
export async function closedLoop(contestant: Contestant, load: Load): Promise<Measured> {
  const { method, size, clients, seconds } = load;
  const calls = open(contestant, clients);
  let running = true;
  let ms: number[] = [];
  const worker = async (i: number) => {
    while (running) {
      const begun = performance.now();
      await calls.once(method, nameOf(size, method === 'PUT' ? i + 1 : 0), size);
      ms.push(performance.now() - begun);
    }
  };
  try {
    const workers = Promise.all(Array.from({ length: clients }, (_, i) => worker(i)));
    // A worker that fails ends the measurement at once.
    const wait = (s: number) => Promise.race([workers, sleep(s * 1_000)]);
    await wait(WARM_SECONDS);
    ms = [];
    const [at, cpu, moved] = [performance.now(), contestant.program.cpuSeconds(), calls.moved()];
    await wait(seconds);
    const took = (performance.now() - at) / 1_000;
    const bytes = isLong(size) ? calls.moved() - moved : ms.length * size;
    const measured = {
      perSecond: bytes / size / took,
      mibPerSecond: bytes / MIB / took,
      ms: isLong(size) ? [] : ms,
      cpu: (contestant.program.cpuSeconds() - cpu) / took,
    };
    running = false;
    if (isLong(size)) calls.cut();
    await workers.catch((error: unknown) => {
      if (!isLong(size)) throw error;
    });
    return measured;
  } finally {
    running = false;
    await calls.close();
  }
}

/**
 * Sends small GETs at a constant rate, also while earlier ones are unanswered. Each is timed from when it was due, so that a
 * contestant that falls behind shows it.
 */
export async function steadyRate(
  contestant: Contestant,
  { size, clients, seconds }: Omit<Load, 'method'>,
  perSecond: number,
): Promise<Measured> {
  const calls = open(contestant, clients);
  const ms: number[] = [];
  const all: Promise<void>[] = [];
  try {
    await Promise.all(Array.from({ length: clients }, () => calls.once('GET', nameOf(size), size)));
    const total = Math.round(perSecond * (seconds + WARM_SECONDS));
    const began = performance.now();
    const cpu = contestant.program.cpuSeconds();
    while (all.length < total) {
      const due = began + (all.length * 1_000) / perSecond;
      if (due > performance.now()) {
        await sleep(1);
        continue;
      }
      const counted = due - began >= WARM_SECONDS * 1_000;
      const call = calls.once('GET', nameOf(size), size);
      const timed = call.then(() => void (counted && ms.push(performance.now() - due)));
      // A failure is reported at the end.
      timed.catch(() => undefined);
      all.push(timed);
    }
    await Promise.all(all);
    const took = (performance.now() - began) / 1_000;
    return {
      perSecond: total / took,
      mibPerSecond: (total * size) / MIB / took,
      ms,
      cpu: (contestant.program.cpuSeconds() - cpu) / took,
    };
  } finally {
    await calls.close();
  }
}

export async function store(contestant: Contestant, size: number): Promise<void> {
  const calls = open(contestant, 1);
  try {
    await calls.once('PUT', nameOf(size), size);
  } finally {
    await calls.close();
  }
}

/** Sends requests over a pool of connections. */
function open(contestant: Contestant, connections: number) {
  const pool = new Pool(contestant.origin, { connections, bodyTimeout: 0, headersTimeout: 0 });
  let moved = 0;

  function once(method: Method, name: string, size: number): Promise<void> {
    return new Promise((resolve, reject) => {
      let received = 0;
      const headers = contestant.headers(method, name);
      if (method === 'PUT') headers['content-length'] = String(size);
      const body = method === 'GET' ? null : isLong(size) ? pieces(size) : SMALL.subarray(0, size);
      pool.dispatch(
        { method, path: contestant.path(name), headers, body },
        {
          onRequestStart: () => undefined,
          onResponseStart: (_, status) => {
            if (status !== 200)
              throw new Error(`${contestant.name} answered a ${method} with status ${status}`);
          },
          onResponseData: (_, chunk) => {
            received += chunk.length;
            if (method === 'GET') moved += chunk.length;
          },
          onResponseEnd: () => {
            if (method === 'PUT' || received === size) resolve();
            else reject(new Error(`${contestant.name} sent ${received} of ${size} bytes`));
          },
          onResponseError: (_, error) => reject(error),
        },
      );
    });
  }

  function pieces(size: number): Readable {
    let left = size;
    return new Readable({
      highWaterMark: PIECE.length,
      read() {
        const piece = PIECE.subarray(0, left);
        left -= piece.length;
        moved += piece.length;
        this.push(piece.length === 0 ? null : piece);
      },
    });
  }

  return {
    once,
    moved: () => moved,
    cut: () => void pool.destroy().catch(() => undefined),
    close: () => pool.destroy(),
  };
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
