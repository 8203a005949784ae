import { scrubberOf } from '../../brokers/egress/core/scrub.ts';
import { quantile } from '../../testing/report.ts';

const BYTES = 2 ** 20;
/** The size of the chunks in which bodies pass the gateway. */
const PIECE = 16 * 1024;
const ROUNDS = 41;

/** The scrubber's processor time for each byte of texts that repeat a part of a value; medians of alternating rounds. */
export function timesOfTexts(value: string): Readonly<Record<string, number>> {
  const scrubber = scrubberOf([value]);
  const beginning = (part: number) => `${value.slice(0, Math.floor(value.length * part))} `;
  const texts = {
    nothing: '\u0001 ',
    first_letter: `${value.slice(0, 1)} `,
    quarter: beginning(0.25),
    half: beginning(0.5),
    all_but_the_end: `${value.slice(0, -1)} `,
  };
  const ns = Object.entries(texts).map(([name, text]) => ({
    name,
    bytes: Buffer.alloc(BYTES, text),
    samples: [] as number[],
  }));
  for (let round = 0; round < ROUNDS; round += 1)
    for (const { bytes, samples } of ns) {
      const body = scrubber.body();
      const before = process.cpuUsage();
      for (let at = 0; at < BYTES; at += PIECE) body.push(bytes.subarray(at, at + PIECE));
      const { user, system } = process.cpuUsage(before);
      samples.push(((user + system) * 1_000) / BYTES);
    }
  return Object.fromEntries(
    ns.map(({ name, samples }) => [
      `text_ns_per_byte_${name}`,
      Math.round(quantile(samples, 0.5) * 100) / 100,
    ]),
  );
}
