import { request, type ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { pipeline, Readable } from 'node:stream';
import { portOf } from '../brokers/kit/index.ts';
import { quantile, type Report } from '../testing/report.ts';
import { openFixture, VALUE } from './egress/fixture.ts';
import { type Gateway, startGateway } from './egress/gateway.ts';
import { timesOfTexts } from './egress/texts.ts';

/**
 * Measures the cost of the scrubber. Bodies go alternately through a gateway with it and one without it, and are measured by
 * processor time, which does not depend on the load of the machine, and by the clock. Also measures how long single events of
 * a stream take. A third gateway has the value, and gets the body, that cost most.
 */
export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const bytes = (quick ? 64 : 256) * MIB;
  const rounds = quick ? 3 : 9;
  const events = quick ? 200 : 2_000;
  const fixture = await openFixture();
  const closers: (() => unknown)[] = [fixture.remove];
  try {
    const upstream = await startUpstream(fixture.leaf, bytes);
    closers.push(upstream.close);
    const at = { port: upstream.port, authority: fixture.authority };
    const [scrubbed, unscrubbed] = [await startGateway(at), await startGateway({ ...at, unscrubbed: true })];
    const worst = await startGateway({ ...at, value: REPEATED });
    closers.push(scrubbed.stop, unscrubbed.stop, worst.stop);
    const samples = { scrubbed: [] as Sample[], unscrubbed: [] as Sample[], worst: [] as Sample[] };
    for (let round = 0; round <= rounds; round += 1)
      for (const [name, ours] of Object.entries({ scrubbed, unscrubbed, worst })) {
        const sample = await fetchBody(ours, bytes, name === 'worst' ? '?repeated=1' : '');
        // The first round warms caches and compilers.
        if (round > 0) samples[name as keyof typeof samples].push(sample);
      }
    const delays = {
      scrubbed: await follow(scrubbed, upstream, events),
      unscrubbed: await follow(unscrubbed, upstream, events),
      worst: await follow(worst, upstream, events),
    };
    const cpu = (of: readonly Sample[]) =>
      quantile(
        of.map(({ cpuSeconds }) => cpuSeconds),
        0.5,
      );
    const clock = (of: readonly Sample[]) =>
      quantile(
        of.map(({ seconds }) => seconds),
        0.5,
      );
    const row = (name: keyof typeof samples) => ({
      what: name,
      'MiB/s': Math.round(bytes / MIB / clock(samples[name])),
      'MiB/s of processor time': Math.round(bytes / MIB / cpu(samples[name])),
      'ns/byte of processor time': round2((cpu(samples[name]) * 1e9) / bytes),
      'event p50 ms': round2(quantile(delays[name], 0.5)),
      'event p99 ms': round2(quantile(delays[name], 0.99)),
    });
    const texts = timesOfTexts(VALUE);
    const nsPerByte = (name: keyof typeof samples) =>
      round2(((cpu(samples[name]) - cpu(samples.unscrubbed)) * 1e9) / bytes);
    return {
      title: `${rounds} bodies of ${bytes / MIB} MiB of JSON, and ${events} events one after another, through the egress gateway`,
      rows: [row('scrubbed'), row('unscrubbed'), row('worst')],
      figures: {
        cpu_scrubbed_over_unscrubbed: round3(cpu(samples.scrubbed) / cpu(samples.unscrubbed)),
        scrubber_ns_per_byte: nsPerByte('scrubbed'),
        scrubber_ns_per_byte_worst: nsPerByte('worst'),
        clock_scrubbed_over_unscrubbed: round3(clock(samples.scrubbed) / clock(samples.unscrubbed)),
        event_p99_scrubbed_ms: round2(quantile(delays.scrubbed, 0.99)),
        event_p99_unscrubbed_ms: round2(quantile(delays.unscrubbed, 0.99)),
        ...texts,
      },
      notes: [
        'text_ns_per_byte_… is the time of the search alone, for texts that contain longer and longer parts of the value. It has to be the same for all of them: otherwise a caller who has texts echoed could learn the value from the time.',
        'In the row “worst”, the value is 4,091 times the same letter and then five others, and the body consists of that letter.',
        'The rates by the clock also depend on the caller and the upstream, which share one Node process.',
      ],
    };
  } finally {
    for (const close of closers.toReversed()) await close();
  }
}

const MIB = 2 ** 20;
/** An answer as an API gives it, with keys that look like the value. */
const PART = Buffer.from(
  JSON.stringify(
    Array.from({ length: 1_000 }, (_, id) => ({
      id,
      name: `user_${id}`,
      key: `sk_live_${id * 7_919}`,
      ok: true,
    })),
  ),
).subarray(0, 32 * 1024);

/** Each byte of the answers could be the beginning of this value, which never occurs in them. */
const REPEATED = `${'a'.repeat(4_091)}bcdef`;
const REPEATED_PART = Buffer.alloc(32 * 1024, 'a');

interface Upstream {
  readonly port: number;
  /** Sends an event to the client that follows the stream. */
  tell(): void;
  close(): Promise<void>;
}

/** `/v1/rates` answers the body; with `?repeated` it answers one letter repeatedly, with `?events` a stream that `tell` writes to. */
async function startUpstream(tls: { cert: string; key: string }, bytes: number): Promise<Upstream> {
  let following: ServerResponse | undefined;
  const server: Server = createServer(tls, (incoming, response) => {
    if (incoming.url?.includes('events')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      following = response;
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes });
    const part = incoming.url?.includes('repeated') ? REPEATED_PART : PART;
    const parts = Array.from({ length: bytes / part.length }, () => part);
    pipeline(Readable.from(parts), response, () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: portOf(server),
    tell: () => void following?.write('data: {"price": 1}\n\n'),
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Sample {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

const ask = (ours: Gateway, query: string) =>
  request({
    host: '127.0.0.1',
    port: ours.port,
    path: `/i/bank/v1/rates${query}`,
    headers: { host: 'assistant-egress', authorization: `Bearer ${ours.principal}` },
    agent: false,
  });

function fetchBody(ours: Gateway, bytes: number, query: string): Promise<Sample> {
  const began = performance.now();
  const before = ours.cpuSeconds();
  return new Promise((resolve, reject) => {
    ask(ours, query)
      .on('error', reject)
      .on('response', (response) => {
        let got = 0;
        response.on('data', (chunk: Buffer) => {
          got += chunk.length;
        });
        response.on('close', () => {
          if (got !== bytes)
            return reject(new Error(`status ${response.statusCode}, ${got} of ${bytes} bytes`));
          resolve({ seconds: (performance.now() - began) / 1_000, cpuSeconds: ours.cpuSeconds() - before });
        });
      })
      .end();
  });
}

/** The milliseconds from writing an event until it arrives; each is written after the one before it has arrived. */
function follow(ours: Gateway, upstream: Upstream, events: number): Promise<readonly number[]> {
  return new Promise((resolve, reject) => {
    const ms: number[] = [];
    const asked = ask(ours, '?events=1');
    asked.on('error', reject).on('response', (response) => {
      let at = performance.now();
      const write = () => {
        at = performance.now();
        upstream.tell();
      };
      response
        .on('error', () => undefined)
        .on('data', () => {
          ms.push(performance.now() - at);
          if (ms.length < events) write();
          else {
            asked.destroy();
            resolve(ms);
          }
        });
      write();
    });
    asked.end();
  });
}

const round2 = (value: number) => Math.round(value * 100) / 100;
const round3 = (value: number) => Math.round(value * 1_000) / 1_000;
