/**
 * `npm run bench -- NAME [--quick] [--capsules N] [--rest SECONDS] [--only PART,…]` runs one benchmark of this folder. It
 * prints a table for people and then one JSON line with the figures for programs; the exit code is 1 if a limit was missed.
 * `--quick` takes at most a minute. `SPACE_BENCH_NODE_ARGS` are further arguments for the Node of the measured services, such
 * as `--cpu-prof --cpu-prof-dir=DIRECTORY`, which shows where their processor time goes.
 */
import { readdir } from 'node:fs/promises';
import { commandLine } from '../scripts/command-line.ts';
import { printReport, type Report } from '../testing/report.ts';

/** A file of this folder that `npm run bench -- NAME` can run. */
interface Benchmark {
  /**
   * `only`: the parts to run; `capsules`: the number of Capsules to create instead of the usual one; `rest`: for how many
   * seconds the created objects are then left unchanged.
   */
  run(options: {
    readonly quick: boolean;
    readonly only?: readonly string[];
    readonly capsules?: number;
    readonly rest?: number;
  }): Promise<Report>;
}

const NOT_BENCHMARKS = new Set(['apiserver.ts', 'main.ts', 'vault.ts']);

async function names(): Promise<string[]> {
  const files = await readdir(import.meta.dirname);
  return files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !NOT_BENCHMARKS.has(file))
    .map((file) => file.slice(0, -'.ts'.length))
    .sort();
}

const USAGE = 'usage: npm run bench -- NAME [--quick] [--capsules N] [--rest SECONDS] [--only PART,…]';

const { values, positionals } = commandLine(USAGE, {
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    capsules: { type: 'string' },
    rest: { type: 'string' },
  },
});
const [name] = positionals;
const known = await names();
if (name === undefined || positionals.length > 1 || !known.includes(name)) {
  console.error(`${USAGE}\nNAME is one of: ${known.join(', ')}`);
  process.exit(2);
}

const { run } = (await import(`./${name}.ts`)) as Benchmark;
const started = performance.now();
const report = await run({
  quick: values.quick,
  ...(values.only === undefined ? {} : { only: values.only.split(',') }),
  ...(values.capsules === undefined ? {} : { capsules: Number(values.capsules) }),
  ...(values.rest === undefined ? {} : { rest: Number(values.rest) }),
});
printReport(report, { bench: name, quick: values.quick }, performance.now() - started);
process.exitCode = (report.missed ?? []).length === 0 ? 0 : 1;
