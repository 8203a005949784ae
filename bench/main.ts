/**
 * `npm run bench -- NAME [--quick] [--kills N] [--cluster] [--capsules N] [--rest SECONDS] [--only PART,…]`: runs one
 * benchmark of this folder, prints its table for people and ends with one JSON line of its figures for machines. `--quick`
 * ends within a minute.
 */
import { readdir } from 'node:fs/promises';
import { cpus, loadavg, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import type { Benchmark } from './report.ts';
import { renderTable } from './report.ts';

const NOT_BENCHMARKS = new Set(['apiserver.ts', 'main.ts', 'report.ts', 'vault.ts']);

async function names(): Promise<string[]> {
  const files = await readdir(import.meta.dirname);
  return files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !NOT_BENCHMARKS.has(file))
    .map((file) => file.slice(0, -'.ts'.length))
    .sort();
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    kills: { type: 'string' },
    cluster: { type: 'boolean', default: false },
    only: { type: 'string' },
    capsules: { type: 'string' },
    rest: { type: 'string' },
  },
});
const [name] = positionals;
const known = await names();
if (name === undefined || positionals.length > 1 || !known.includes(name)) {
  console.error(
    `usage: npm run bench -- NAME [--quick] [--kills N] [--cluster] [--capsules N] [--rest SECONDS] [--only PART,…]\nNAME is one of: ${known.join(', ')}`,
  );
  process.exit(2);
}

const { run } = (await import(`./${name}.ts`)) as Benchmark;
const started = performance.now();
const report = await run({
  quick: values.quick,
  cluster: values.cluster,
  ...(values.kills === undefined ? {} : { kills: Number(values.kills) }),
  ...(values.only === undefined ? {} : { only: values.only.split(',') }),
  ...(values.capsules === undefined ? {} : { capsules: Number(values.capsules) }),
  ...(values.rest === undefined ? {} : { rest: Number(values.rest) }),
});
const seconds = Math.round((performance.now() - started) / 100) / 10;
const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;

console.log(`\n${report.title}\n${machine}, load ${loadavg()[0]?.toFixed(1)}, ${seconds} s\n`);
console.log(renderTable(report.rows));
for (const note of report.notes ?? []) console.log(`\n${note}`);
console.log(`\n${JSON.stringify({ bench: name, quick: values.quick, seconds, ...report.figures })}`);
