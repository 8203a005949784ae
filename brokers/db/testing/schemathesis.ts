/**
 * `npm run fuzz:db [-- --examples N]`: schemathesis (PyPI) against the OpenAPI document and a live broker, with each
 * credential of its own, with a wrong one and with none. Exits with 1 unless every answer is a 2xx or 4xx of the
 * documented form. It is installed once, in a virtual environment of the cache folder, and needs Python.
 */
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { newToken } from '@space/broker-kit';
import { setStage } from './postgres.ts';

const VERSION = '4.32.5';
const DOCUMENT = resolve(import.meta.dirname, '../../../docs/wire/db-broker.openapi.generated.json');

/** It wants 401 where the interface has its one refusal, 403. */
const NOT_OURS = 'missing_required_header';

/** The document with ids of which there is one that works, so that valid requests get through to the server. */
function narrowed(text: string): string {
  const document = JSON.parse(text, (key, value: unknown) => {
    if (key === 'capsule_id') return { enum: ['fuzzed'] };
    return key === 'app_id' ? { enum: ['one', 'two'] } : value;
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
    // A virtual environment runs where it lies, by the paths inside its Python; only its scripts name the old place.
    await rename(draft, home);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return home;
}

const { values } = parseArgs({ options: { examples: { type: 'string', default: '100' } } });
const home = await installed();
const generous = { perSecond: '1000000', burst: '1000000' };
const stage = await setStage(
  {},
  {
    environment: {
      CAPSULE_REQUESTS_PER_SECOND: generous.perSecond,
      CAPSULE_REQUESTS_BURST: generous.burst,
      REFUSALS_PER_SECOND: generous.perSecond,
      REFUSALS_BURST: generous.burst,
      LOG_LEVEL: 'info',
    },
  },
);
let failed = 0;
try {
  const capsule = await stage.broker.capsule('fuzzed');
  const credentials: Readonly<Record<string, string | undefined>> = {
    'the provisioner': stage.mounts.provisioner,
    'a Capsule': capsule.token,
    'a wrong token': newToken('dbp').reveal(),
    'no token': undefined,
  };
  const lucky = join(stage.mounts.directory, 'narrowed.json');
  await writeFile(lucky, narrowed(await readFile(DOCUMENT, 'utf8')));
  for (const [who, token] of Object.entries(credentials)) {
    for (const document of [DOCUMENT, lucky]) {
      console.log(`\n── as ${who}${document === lucky ? ', of things that are there' : ''}`);
      const header = token === undefined ? [] : ['--header', `Authorization: Bearer ${token}`];
      const code = await st(
        ...['run', document, '--url', stage.broker.url, ...header],
        ...['--checks', 'all', '--exclude-checks', NOT_OURS, '--max-examples', values.examples],
        ...['--seed', '1', '--continue-on-failure', '--warnings', 'off', '--no-color'],
      );
      if (code !== 0) failed += 1;
    }
  }
  // What the checks cannot see: that nothing went wrong behind an answer.
  const errors = stage.broker.log.filter((line) => line.includes('"level":"error"'));
  for (const line of errors.slice(0, 10)) console.error(line);
  if (errors.length > 0) failed += 1;
} finally {
  await stage.close();
}
process.exitCode = failed === 0 ? 0 : 1;

function st(...args: readonly string[]): Promise<number | null> {
  return new Promise((done, reject) => {
    const main = ['-c', 'from schemathesis.cli import schemathesis; schemathesis()'];
    const child = spawn(join(home, 'bin/python'), [...main, ...args], {
      // It keeps notes where it runs.
      cwd: stage.mounts.directory,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    child.on('error', reject);
    child.on('close', done);
  });
}
