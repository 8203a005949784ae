/** Measures how long the check of a manifest takes, compared with ajv's compiled validator for the same JSON Schema. */
import { checkManifest, parseManifest } from '@space/manifests';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { manifestSchema } from '../manifests/derive/schemas.ts';
import { sampleManifest } from '../manifests/testing/samples.ts';
import { quantile, type Report, type Row } from '../testing/report.ts';

const KIB = 1024;

const SAMPLES = {
  typical: sampleManifest({ inputs: 3, routes: 10 }),
  full: sampleManifest({ inputs: 8, routes: 256, genesis: 64 * KIB }),
  largest: sampleManifest({ inputs: 8, routes: 256, selectors: 8, values: 16, valueLength: 24, genesis: 1 }),
};

/** Runs the validators alternately, so that a busy machine slows all of them equally. */
function race(
  judges: Readonly<Record<string, () => boolean>>,
  milliseconds: number,
): Record<string, number[]> {
  const times: Record<string, number[]> = Object.fromEntries(Object.keys(judges).map((name) => [name, []]));
  const started = performance.now();
  const warmUp = milliseconds / 4;
  for (;;) {
    const elapsed = performance.now() - started;
    if (elapsed > warmUp + milliseconds) return times;
    for (const [name, judge] of Object.entries(judges)) {
      const before = performance.now();
      const accepted = judge();
      const after = performance.now();
      if (!accepted) throw new Error(`${name} refused a valid manifest`);
      if (elapsed > warmUp) times[name]?.push(after - before);
    }
  }
}

const rate = (times: readonly number[]) =>
  Math.round((1000 * times.length) / times.reduce((sum, one) => sum + one, 0));

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const ajv = new Ajv2020({ strict: false, allErrors: true }).compile(manifestSchema());
  const rows: Row[] = [];
  const figures: Record<string, number> = {};
  for (const [name, sample] of Object.entries(SAMPLES)) {
    const text = JSON.stringify(sample);
    const judges = {
      check: () => checkManifest(sample).ok,
      parse: () => parseManifest(text).ok,
      ajv: () => ajv(sample),
    };
    const times = race(judges, quick ? 3000 : 15_000);
    for (const [judge, samples] of Object.entries(times)) {
      const took = { p50_ms: quantile(samples, 0.5), p99_ms: quantile(samples, 0.99) };
      rows.push({ manifest: name, bytes: text.length, judge, ...took, per_second: rate(samples) });
      for (const [figure, value] of Object.entries(took)) figures[`${name}_${judge}_${figure}`] = value;
    }
    const median = (judge: string) => quantile(times[judge] ?? [], 0.5);
    figures[`${name}_rate_to_ajv`] = median('ajv') / median('check');
  }
  return {
    title:
      'Time to check a manifest: checkManifest on a parsed value, parseManifest on text, and ajv on a parsed value',
    rows,
    figures,
    notes: [
      'checkManifest also copies and freezes the value, and checks rules that a schema cannot express; ajv only says whether the value is valid.',
    ],
  };
}
