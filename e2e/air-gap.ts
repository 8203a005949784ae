/**
 * `npm run air-gap -- FILE [--platform linux/amd64,linux/arm64]`: builds all images of a Space and writes them to one
 * OCI archive, and beside it the chart's values that name them. For a cluster without internet access, these and the
 * chart are all that is needed. Without --platform the images are for this machine's platform; with several, each
 * name leads to an index, from which a node takes the image of its own.
 */
import { accessSync, constants } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { commandLine } from '../scripts/command-line.ts';
import { writeAirGap } from './cluster/index.ts';
import { createSteps } from './progress/index.ts';
import { imageValues, platformsOf, pushLines } from './space/air-gap.ts';
import { IMAGE_SOURCES } from './space/images.ts';

const { given, platforms } = wanted();
const file = resolve(given);
const values = `${file.replace(/\.tar$/, '')}.yaml`;
const steps = createSteps();
try {
  const carried = await writeAirGap(IMAGE_SOURCES, file, steps, platforms);
  await writeFile(values, imageValues(carried));
  steps.close();
  console.log(
    [
      `${file} contains ${carried.length} images for ${platforms.join(' and ')}. To copy them into a registry, set REGISTRY to its host and path, and run:`,
      ...pushLines(file, carried, platforms).map((line) => `  ${line}`),
      'Then install the chart with these options:',
      `  -f ${values} --set image.registry=$REGISTRY`,
    ].join('\n'),
  );
} catch (error) {
  steps.close();
  const told = steps.summary().some(({ outcome }) => outcome === 'failed');
  if (!told) console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

function wanted() {
  const usage = 'usage: npm run air-gap -- FILE [--platform linux/amd64,linux/arm64]';
  const { values, positionals } = commandLine(usage, {
    options: { platform: { type: 'string' } },
    allowPositionals: true,
  });
  try {
    const [given, ...more] = positionals;
    if (given === undefined || more.length > 0) throw new Error('name exactly one FILE');
    return { given: writable(given), platforms: platformsOf(values.platform) };
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    console.error(usage);
    process.exit(2);
  }
}

/** Building takes minutes, so this checks first whether the archive can be written. */
function writable(file: string): string {
  const folder = dirname(resolve(file));
  try {
    accessSync(folder, constants.W_OK);
  } catch {
    throw new Error(`${file}: the folder ${folder} does not exist, or you may not write to it`);
  }
  return file;
}
