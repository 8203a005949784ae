import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { SoakReport } from '../soak.ts';

/**
 * Runs schemathesis (PyPI) with an OpenAPI document against a running service. It is installed once in a virtual environment in
 * the cache, and needs Python.
 */

const VERSION = '4.32.5';
const DOCUMENTS = resolve(import.meta.dirname, '../../../docs/wire');
const USUAL_EXAMPLES = 100;
/** This check expects 401, while the interface refuses with 403. */
const NOT_OURS = 'missing_required_header';

export interface Fuzzed {
  /** The name of the generated OpenAPI document in `docs/wire`. */
  readonly document: string;
  readonly url: string;
  /** Tokens by the name of the caller. */
  readonly credentials: Readonly<Record<string, string | undefined>>;
  /** Existing values by the property's name, so that some requests succeed. */
  readonly there: Readonly<Record<string, readonly string[]>>;
  /** Checks that are left out always, or if the document is restricted to existing values. */
  readonly except?: { readonly always: readonly string[]; readonly narrowed: readonly string[] };
  /** The service's log so far, which shows errors that no answer shows. */
  readonly log: readonly string[];
  /** The number of requests of each operation. */
  readonly examples?: number | undefined;
}

interface Verdict {
  readonly document: string;
  /** Whether every answer was a 2xx or 4xx of the documented form, and no error was logged. */
  readonly good: boolean;
}

/** Generous limits of a service that is to be fuzzed. */
export const GENEROUS = {
  CAPSULE_REQUESTS_PER_SECOND: '1000000',
  CAPSULE_REQUESTS_BURST: '1000000',
  REFUSALS_PER_SECOND: '1000000',
  REFUSALS_BURST: '1000000',
  LOG_LEVEL: 'info',
};

export async function fuzz(fuzzed: Fuzzed): Promise<Verdict> {
  const { url, credentials, there, log, except, examples = USUAL_EXAMPLES } = fuzzed;
  const document = join(DOCUMENTS, `${fuzzed.document}.openapi.generated.json`);
  const home = await installed();
  // schemathesis writes files into its working directory.
  const cwd = await mkdtemp(join(tmpdir(), 'space-fuzz-'));
  let good = true;
  try {
    const lucky = join(cwd, 'narrowed.json');
    await writeFile(lucky, narrowed(await readFile(document, 'utf8'), there));
    for (const [who, token] of Object.entries(credentials)) {
      for (const one of [document, lucky]) {
        console.log(`\n── as ${who}${one === lucky ? ', with ids that exist' : ''}`);
        const beside = [...(except?.always ?? []), ...(one === lucky ? (except?.narrowed ?? []) : [])];
        const header = token === undefined ? [] : ['--header', `Authorization: Bearer ${token}`];
        const code = await st(home, cwd, [
          ...['run', one, '--url', url, ...header],
          ...[
            '--checks',
            'all',
            '--exclude-checks',
            [NOT_OURS, ...beside].join(','),
            '--max-examples',
            String(examples),
          ],
          ...['--seed', '1', '--continue-on-failure', '--warnings', 'off', '--no-color'],
        ]);
        if (code !== 0) good = false;
      }
    }
  } finally {
    await rm(cwd, { recursive: true, force: true });
  }
  const errors = log.filter((line) => line.includes('"level":"error"'));
  for (const line of errors.slice(0, 10)) console.error(line);
  return { document: fuzzed.document, good: good && errors.length === 0 };
}

export function fuzzReport(title: string, verdicts: readonly Verdict[]): SoakReport {
  const failed = verdicts.filter(({ good }) => !good).length;
  return {
    passed: failed === 0,
    title,
    rows: verdicts.map(({ document, good }) => ({
      document,
      'every answer as documented': good ? 'yes' : 'no',
    })),
    figures: { documents: verdicts.length, failed },
  };
}

function narrowed(text: string, there: Fuzzed['there']): string {
  const narrow = (key: string, value: unknown) => (Object.hasOwn(there, key) ? { enum: there[key] } : value);
  // Only requests are restricted, since answers may name objects that were created meanwhile.
  const document = JSON.parse(text, (key, value: unknown) => {
    if (key === 'requestBody') return JSON.parse(JSON.stringify(value), narrow);
    if (key !== 'parameters') return value;
    return (value as readonly { name: string; schema: unknown }[]).map((one) => ({
      ...one,
      schema: narrow(one.name, one.schema),
    }));
  });
  return JSON.stringify(document);
}

async function installed(): Promise<string> {
  const root = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'space');
  const home = join(root, `schemathesis-${VERSION}`);
  if (existsSync(home)) return home;
  const draft = `${home}.${process.pid}`;
  await mkdir(root, { recursive: true });
  const run = promisify(execFile);
  try {
    await run('python3', ['-m', 'venv', draft]);
    await run(join(draft, 'bin/python'), ['-m', 'pip', 'install', '--quiet', `schemathesis==${VERSION}`]);
    // A virtual environment can be moved, since its Python finds its own path; only its scripts contain the old one.
    await rename(draft, home);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return home;
}

function st(home: string, cwd: string, args: readonly string[]): Promise<number | null> {
  return new Promise((done, reject) => {
    const main = ['-c', 'from schemathesis.cli import schemathesis; schemathesis()'];
    const child = spawn(join(home, 'bin/python'), [...main, ...args], {
      cwd,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    child.on('error', reject);
    child.on('close', done);
  });
}
