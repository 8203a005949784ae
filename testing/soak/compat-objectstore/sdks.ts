import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { S3Keys } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { lines, Missing, NAMES, type Outcome } from '../outcome.ts';

const run = promisify(execFile);
const here = (name: string) => new URL(`./${name}`, import.meta.url).pathname;

/** The AWS SDK for Go, in a program that is built for the run. Needs `go`. */
export async function withGo(directory: string, endpoint: string, keys: S3Keys): Promise<readonly Outcome[]> {
  const program = join(directory, 'compat-go');
  const env = { ...process.env, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '-mod=readonly -buildvcs=false' };
  await run('go', ['build', '-o', program, '.'], { cwd: here('go'), env }).catch(needed('go'));
  const said = await speak(program, [], JSON.stringify({ endpoint, keys, names: NAMES }));
  return lines(said).map((line) => ({ by: 'AWS SDK for Go', ...(JSON.parse(line) as Omit<Outcome, 'by'>) }));
}

/** The AWS SDK for Java. Needs `mvn` and a JDK. */
export async function withJava(
  directory: string,
  endpoint: string,
  keys: S3Keys,
): Promise<readonly Outcome[]> {
  const work = join(directory, 'compat-java');
  await mkdir(work);
  await cp(here('java'), work, { recursive: true });
  const goals = ['package', 'dependency:copy-dependencies', '-DincludeScope=runtime'];
  await run('mvn', ['-q', '-B', ...goals], { cwd: work, maxBuffer: 2 ** 26 }).catch(needed('mvn'));
  const names = NAMES.map((name) => Buffer.from(name).toString('base64'));
  const classes = `${work}/target/classes:${work}/target/dependency/*`;
  const all = ['-cp', classes, 'space.Compat', endpoint, keys.AccessKeyId, keys.SecretAccessKey, ...names];
  return lines(await speak('java', all, '')).map((line) => {
    const [name = '', failed = ''] = line.split('\t');
    return { by: 'AWS SDK for Java', case: name, ...(failed === '' ? {} : { failed: failed.slice(0, 400) }) };
  });
}

async function speak(program: string, args: readonly string[], input: string): Promise<string> {
  const child = spawn(program, args, { env: { PATH: process.env['PATH'], HOME: process.env['HOME'] } });
  child.stdin.on('error', () => undefined).end(input);
  const [said, complaint, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  if (code !== 0 || said === '') throw new Error(`${program} ended with ${code}: ${complaint.slice(-800)}`);
  return said;
}

const needed = (program: string) => (error: Error & { readonly code?: unknown }) => {
  throw error.code === 'ENOENT' ? new Missing(`${program} is not installed`) : error;
};
