/**
 * Version 0.1.0 as it was released: its chart from the archive, and its images, built from its sources in the
 * history.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { ImageSource } from '../cluster/index.ts';
import { run } from '../cluster/run.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** The commit that the archived chart belongs to. */
const COMMIT = 'a244cee2958cbbbc8429c3ded023fc98ab2656f6';

/** For each chart value, its image's name in that version and the directory that it is built from. */
const BUNDLED = {
  'operator.image': ['operator', 'operator'],
  'dbBroker.image': ['db-broker', 'brokers/db'],
  'egress.image': ['egress', 'brokers/egress'],
  'objectStore.image': ['objectstore-broker', 'brokers/objectstore'],
  ledger: ['ledger', 'manifests/examples/ledger'],
} as const;
const WHOLE = {
  'postgres.image': ['postgres', 'brokers/db/postgres'],
  'sandbox.attester.image': ['attester', 'operator/sandbox/attester'],
} as const;

export const EARLIER_CHART = resolve(ROOT, 'e2e/space/charts/space-0.1.0.tgz');

type Image = keyof typeof BUNDLED | keyof typeof WHOLE;

export interface Earlier {
  readonly images: Readonly<Record<Image, ImageSource>>;
  /** The directory with the example's Capsule and Assistant. */
  readonly examples: string;
  /** The directory with the CustomResourceDefinitions. */
  readonly crds: string;
  remove(): Promise<void>;
}

/** Extracts the sources of that version from the history, with the packages that they name. */
export async function openEarlier(): Promise<Earlier> {
  const directory = await mkdtemp(join(tmpdir(), 'space-earlier-'));
  try {
    const [sources, chart] = [join(directory, 'sources.tar'), join(directory, 'chart')];
    await run(['git', '-C', ROOT, 'archive', '--output', sources, COMMIT]);
    await run(['tar', '-xf', sources, '-C', directory]);
    await run(['mkdir', chart]);
    await run(['tar', '-xzf', EARLIER_CHART, '-C', chart]);
    await run(['npm', 'ci', '--no-audit', '--no-fund'], { cwd: directory });
    await run([process.execPath, 'scripts/bundle.ts', ...Object.values(BUNDLED).map(([name]) => name)], {
      cwd: directory,
    });
  } catch (cause) {
    await rm(directory, { recursive: true });
    throw new Error(
      `version 0.1.0 cannot be built from commit ${COMMIT}, which a shallow clone does not have`,
      {
        cause,
      },
    );
  }
  const source = (name: string, place: string, context: string): ImageSource => ({
    name: `space/${name}`,
    dockerfile: join(directory, place, 'Dockerfile'),
    context: join(directory, context),
  });
  const bundled = Object.entries(BUNDLED).map(([value, [name, place]]) => [
    value,
    source(name, place, join('dist', name)),
  ]);
  const whole = Object.entries(WHOLE).map(([value, [name, place]]) => [value, source(name, place, place)]);
  return {
    images: Object.fromEntries([...bundled, ...whole]) as Earlier['images'],
    examples: join(directory, 'manifests/examples'),
    crds: join(directory, 'chart/space/crds'),
    remove: () => rm(directory, { recursive: true }),
  };
}
