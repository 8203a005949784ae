/**
 * `npm run air-gap -- FILE`: builds all images of a Space and writes them to one OCI archive, and beside it the chart's values
 * that name them. Where there is no way out, that and the chart are all that has to be carried in.
 */
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { writeAirGap } from './cluster/index.ts';
import { createSteps } from './progress/index.ts';
import { imageValues, pushLines } from './space/air-gap.ts';
import { IMAGE_SOURCES } from './space/images.ts';

const [given, ...more] = process.argv.slice(2);
if (given === undefined || given.startsWith('-') || more.length > 0) {
  console.error('usage: npm run air-gap -- FILE');
  process.exit(2);
}
const file = resolve(given);
const values = `${file.replace(/\.tar$/, '')}.yaml`;
const steps = createSteps();
try {
  const carried = await writeAirGap(IMAGE_SOURCES, file, steps);
  await writeFile(values, imageValues(carried));
  steps.close();
  console.log(
    [
      `${file} has ${carried.length} images. Into a registry, with REGISTRY as its host and path:`,
      ...pushLines(file, carried).map((line) => `  ${line}`),
      'Then install with:',
      `  -f ${values} --set image.registry=$REGISTRY`,
    ].join('\n'),
  );
} catch (error) {
  steps.close();
  const told = steps.summary().some(({ outcome }) => outcome === 'failed');
  if (!told) console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
