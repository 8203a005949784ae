/**
 * `node scripts/bundle.ts [IMAGE…]`: writes the build context of each image of ours to `dist/<image>/`, one file a
 * program. The same sources give the same bytes, so that a hash of the context names the image.
 */
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { build } from 'esbuild';

const ROOT = resolve(import.meta.dirname, '..');

interface Context {
  /** Programs, by the name of the file that they become. Those marked optional are left out until they exist. */
  readonly programs: Readonly<Record<string, { readonly entry: string; readonly optional?: boolean }>>;
  /** Directories whose JSON documents are copied, by the name that they get. */
  readonly documents?: Readonly<Record<string, string>>;
}

const CONTEXTS = {
  operator: {
    programs: { 'main.mjs': { entry: 'operator/main.ts' } },
    documents: { driver: 'manifests/driver' },
  },
  'db-broker': {
    programs: {
      'main.mjs': { entry: 'brokers/db/main.ts' },
      'health.mjs': { entry: 'brokers/db/health.ts' },
      'admin.mjs': { entry: 'brokers/db/admin.ts', optional: true },
    },
    documents: { driver: 'manifests/driver' },
  },
  ledger: { programs: { 'server.mjs': { entry: 'manifests/examples/ledger/server.ts' } } },
} as const satisfies Record<string, Context>;

export type BundleName = keyof typeof CONTEXTS;
const NAMES = Object.keys(CONTEXTS) as BundleName[];

const contextOf = (name: BundleName): string => join(ROOT, 'dist', name);

/** Dependencies that are CommonJS call `require`, which an ES module does not have. */
const REQUIRE = `import { createRequire as __createRequire } from 'node:module';
const require = __createRequire(import.meta.url);`;

/** Fills `dist/<name>/` anew; whoever reads it meanwhile sees the old directory or the new one. */
export async function bundle(name: BundleName): Promise<void> {
  const { programs, documents = {} }: Context = CONTEXTS[name];
  const target = contextOf(name);
  const draft = `${target}.${process.pid}`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true });
  try {
    for (const [file, { entry, optional }] of Object.entries(programs)) {
      if (optional === true && !existsSync(join(ROOT, entry))) continue;
      await bundleProgram(join(ROOT, entry), join(draft, file));
    }
    for (const [directory, source] of Object.entries(documents))
      await copyDocuments(join(ROOT, source), join(draft, directory));
    await rm(target, { recursive: true, force: true });
    await rename(draft, target);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Not minified: a stack trace names our functions, and a reader of the image can read it. */
async function bundleProgram(entry: string, file: string): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: [relative(ROOT, entry)],
    outfile: file,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node26',
    external: ['pg-native'],
    banner: { js: REQUIRE },
    legalComments: 'none',
    // What is wrong is in the error that it throws; on a terminal, steps are drawn at the same time.
    logLevel: 'silent',
  });
}

async function copyDocuments(source: string, target: string): Promise<void> {
  await mkdir(target, { recursive: true });
  for (const file of (await readdir(source)).sort())
    if (file.endsWith('.json')) await cp(join(source, file), join(target, file));
}

if (import.meta.main) {
  const wanted = process.argv.slice(2);
  const unknown = wanted.filter((name) => !NAMES.some((known) => known === name));
  if (unknown.length > 0) {
    console.error(`There is no image ${unknown.join(', ')}. Known are ${NAMES.join(', ')}.`);
    process.exit(2);
  }
  for (const name of NAMES.filter((known) => wanted.length === 0 || wanted.includes(known))) {
    const started = performance.now();
    await bundle(name);
    console.log(
      `${relative(ROOT, contextOf(name))} (${((performance.now() - started) / 1000).toFixed(1)} s)`,
    );
  }
}
