/**
 * `node scripts/bundle.ts [IMAGE…]`: writes the build context of each image, `dist/<image>/`: one bundled file per
 * program and the documents it serves. The same sources give the same bytes, so an image's tag can be their hash.
 */
import { cp, mkdir, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { build } from 'esbuild';

const ROOT = resolve(import.meta.dirname, '..');

interface Bundle {
  /** Program in the image → its source. */
  readonly programs: Readonly<Record<string, string>>;
  /** Directory in the image → the directory that it is a copy of. */
  readonly documents?: Readonly<Record<string, string>>;
}

const BUNDLES = {
  operator: { programs: { main: 'operator/main.ts' }, documents: { driver: 'manifests/driver' } },
  'db-broker': {
    programs: { main: 'brokers/db/main.ts', health: 'brokers/db/health.ts' },
    documents: { driver: 'manifests/driver' },
  },
  ledger: { programs: { server: 'manifests/examples/ledger/server.ts' } },
} as const satisfies Record<string, Bundle>;

export type BundleName = keyof typeof BUNDLES;

/** CommonJS dependencies inside a module bundle still call `require`, for Node's own modules. */
const REQUIRE =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);";

/** Fills `dist/<name>/` and returns its path. */
export async function bundle(name: BundleName): Promise<string> {
  const { programs, documents = {} }: Bundle = BUNDLES[name];
  const out = resolve(ROOT, 'dist', name);
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: Object.entries(programs).map(([program, source]) => ({ in: source, out: program })),
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    target: 'node26',
    format: 'esm',
    banner: { js: REQUIRE },
    keepNames: true,
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    external: ['pg-native'],
    logLevel: 'warning',
  });
  for (const [directory, source] of Object.entries(documents)) {
    const onlyDocuments = (path: string) => !path.endsWith('.ts');
    await cp(resolve(ROOT, source), resolve(out, directory), { recursive: true, filter: onlyDocuments });
  }
  return out;
}

if (import.meta.main) {
  const asked = process.argv.slice(2);
  const names = Object.keys(BUNDLES) as BundleName[];
  const unknown = asked.filter((name) => !names.includes(name as BundleName));
  if (unknown.length > 0) {
    console.error(`no such image: ${unknown.join(', ')}; there are ${names.join(', ')}`);
    process.exit(2);
  }
  await Promise.all(names.filter((name) => asked.length === 0 || asked.includes(name)).map(bundle));
}
