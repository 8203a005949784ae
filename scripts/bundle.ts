/**
 * `node scripts/bundle.ts [IMAGE…]`: writes the build context of each image of ours to `dist/<image>/`, one file a
 * program. The same sources give the same bytes, so that a hash of the context names the image.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { build, type Plugin, transform } from 'esbuild';

const ROOT = resolve(import.meta.dirname, '..');

interface Context {
  /** Programs' sources, by the name of the file that they become. */
  readonly programs: Readonly<Record<string, string>>;
  /** Directories whose JSON documents are copied, by the name that they get. */
  readonly documents?: Readonly<Record<string, string>>;
  /** Files that are copied as they are, by the name that they get. */
  readonly files?: Readonly<Record<string, string>>;
  /** It reads the bodies of requests itself, and names the types of its answers whole. */
  readonly hasNoParsers?: boolean;
  /** It asks others with `request` and an `Agent` alone. */
  readonly hasSmallUndici?: boolean;
  /** esbuild leaves the letters of tagged templates as they are, and writes those of calls in ASCII. */
  readonly hasTaggedTexts?: boolean;
}

const CONTEXTS = {
  operator: {
    programs: {
      'main.mjs': 'operator/main.ts',
      'keys.mjs': 'operator/keys/main.ts',
      'backup.mjs': 'operator/backup/main.ts',
      'test.mjs': 'operator/selftest/main.ts',
    },
    documents: { driver: 'manifests/driver' },
  },
  'db-broker': {
    programs: {
      'main.mjs': 'brokers/db/main.ts',
      'health.mjs': 'brokers/db/health.ts',
      'admin.mjs': 'brokers/db/admin.ts',
    },
    documents: { driver: 'manifests/driver' },
  },
  egress: {
    programs: { 'main.mjs': 'brokers/egress/main.ts', 'health.mjs': 'brokers/egress/health.ts' },
  },
  'objectstore-broker': {
    programs: {
      'main.mjs': 'brokers/objectstore/main.ts',
      'health.mjs': 'brokers/objectstore/health.ts',
      'admin.mjs': 'brokers/objectstore/admin.ts',
      'backup.mjs': 'brokers/objectstore/backup.ts',
    },
    documents: { driver: 'manifests/driver' },
  },
  console: {
    programs: { 'main.mjs': 'console/main.ts' },
    files: { 'style.css': 'console/html/style.css', 'live.js': 'console/html/live.js' },
    hasTaggedTexts: true,
    hasNoParsers: true,
    hasSmallUndici: true,
  },
  ledger: { programs: { 'server.mjs': 'manifests/examples/ledger/server.ts' } },
} as const satisfies Record<string, Context>;

export type BundleName = keyof typeof CONTEXTS;
const NAMES = Object.keys(CONTEXTS) as BundleName[];

const contextOf = (name: BundleName): string => join(ROOT, 'dist', name);

/** Dependencies that are CommonJS call `require`, which an ES module does not have. */
const REQUIRE = `import { createRequire as __createRequire } from 'node:module';
const require = __createRequire(import.meta.url);`;

/** Fills `dist/<name>/`; when it holds the same already it is not touched, so that whoever reads it is not disturbed. */
export async function bundle(name: BundleName): Promise<void> {
  const { programs, documents = {}, files = {}, ...how }: Context = CONTEXTS[name];
  const target = contextOf(name);
  const draft = `${target}.${process.pid}`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true });
  try {
    await Promise.all([
      ...Object.entries(programs).map(([file, entry]) =>
        bundleProgram(join(ROOT, entry), join(draft, file), how),
      ),
      ...Object.entries(documents).map(([directory, source]) =>
        copyDocuments(join(ROOT, source), join(draft, directory)),
      ),
      ...Object.entries(files).map(([file, source]) => cp(join(ROOT, source), join(draft, file))),
    ]);
    const made = await digestOf(draft);
    if (made === (await digestOf(target))) return;
    await rm(target, { recursive: true, force: true });
    await rename(draft, target).catch(async (error: unknown) => {
      // Another command that bundles the same was a moment faster.
      if (made !== (await digestOf(target))) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Returns the digest of the names and contents of all files in a directory; undefined if it does not exist. */
async function digestOf(directory: string): Promise<string | undefined> {
  if (!existsSync(directory)) return undefined;
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash('sha256');
  for (const file of files.sort())
    hash.update(`\0${relative(directory, file)}\0`).update(await readFile(file));
  return hash.digest('hex');
}

/** zod has messages in many languages, each of some kilobytes; the bundle only needs the default one. */
const ONE_LANGUAGE: Plugin = {
  name: 'one-language',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path }) => ({
      contents: "export { default as en } from './en.js';",
      resolveDir: dirname(path),
    }));
  },
};

/** Express brings parsers of bodies, with the tables of every character set, and 2,500 types of files by their endings. */
const NO_PARSERS: Plugin = {
  name: 'no-parsers',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]body-parser[\\/]index\.js$/ }, () => ({ contents: 'module.exports = {};' }));
    onLoad({ filter: /[\\/]mime-db[\\/]db\.json$/ }, () => ({ contents: '{}', loader: 'json' }));
  },
};

/**
 * undici also brings proxies, caches, mocks and websockets. Of all this the console uses four functions, and `fetch` only where
 * an issuer is configured.
 */
const SMALL_UNDICI: Plugin = {
  name: 'small-undici',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]undici[\\/]index\.js$/ }, () => ({
      contents: `
        const api = require('./lib/api');
        Object.assign(require('./lib/dispatcher/dispatcher').prototype, api);
        exports.Agent = require('./lib/dispatcher/agent');
        exports.buildConnector = require('./lib/core/connect');
        exports.request = (url, { dispatcher = require('./lib/global').getGlobalDispatcher(), ...options }) => {
          const { origin, pathname, search } = new URL(url);
          return api.request.call(dispatcher, { method: 'GET', ...options, origin, path: pathname + search });
        };
        exports.fetch = (...asked) => require('./lib/web/fetch').fetch(...asked);`,
    }));
  },
};

/**
 * A program's text stays in memory for as long as it runs, and so has no indentation. Names are as they were written: a stack
 * trace names our functions.
 */
export async function bundleProgram(
  entry: string,
  file: string,
  { hasTaggedTexts = false, hasNoParsers = false, hasSmallUndici = false }: Omit<Context, 'programs'> = {},
): Promise<void> {
  const { outputFiles } = await build({
    write: false,
    absWorkingDir: ROOT,
    entryPoints: [relative(ROOT, entry)],
    outfile: file,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node26',
    minifyWhitespace: true,
    lineLimit: 160,
    // undici asks whether it is itself a bundle, and leaves its experimental parser out of one.
    ...(hasSmallUndici && { define: { esbuildDetection: 'true' } }),
    plugins: [ONE_LANGUAGE, ...(hasNoParsers ? [NO_PARSERS] : []), ...(hasSmallUndici ? [SMALL_UNDICI] : [])],
    external: ['pg-native'],
    banner: { js: REQUIRE },
    legalComments: 'none',
    supported: { 'template-literal': !hasTaggedTexts },
    // What is wrong is in the error that it throws; on a terminal, steps are drawn at the same time.
    logLevel: 'silent',
  });
  for (const { text } of outputFiles) await writeFile(file, await inAscii(text));
}

/**
 * V8 keeps a program's text for as long as it runs, at two bytes a character if one of them needs two. esbuild writes
 * all but comments in ASCII; whoever reads the program without its comments must not see the difference.
 */
async function inAscii(text: string): Promise<string> {
  const ascii = text.replaceAll(/[^\x00-\x7f]/g, '?');
  const program = async (code: string) =>
    (await transform(code, { minifyWhitespace: true, legalComments: 'none' })).code;
  if (ascii !== text && (await program(ascii)) !== (await program(text)))
    throw new Error('a bundle is not ASCII outside of its comments');
  return ascii;
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
