/**
 * `npm run check`: types, lint and format, dead code, imports, retired words, stale generated files, side by side, in seconds.
 * Prints one line a check; the output of one that fails follows it whole, and of the imports also what is left to do.
 */
import { spawn } from 'node:child_process';

interface Check {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** Its output is printed also when it passes. */
  readonly tells?: boolean;
}

const CHECKS: readonly Check[] = [
  { name: 'types', command: ['tsc', '--project', 'tsconfig.json'] },
  { name: 'lint and format', command: ['biome', 'ci', '--error-on-warnings', '.'] },
  { name: 'dead code', command: ['knip', '--no-progress', '--treat-config-hints-as-errors'] },
  { name: 'imports', command: ['node', 'scripts/imports.ts'], tells: true },
  { name: 'retired words', command: ['node', 'scripts/words.ts'] },
  { name: 'generated files', command: ['node', 'scripts/generate.ts', '--check'] },
];

interface Outcome extends Check {
  readonly passed: boolean;
  readonly seconds: number;
  readonly output: string;
}

function run(check: Check): Promise<Outcome> {
  const started = performance.now();
  const [program, ...args] = check.command;
  const child = spawn(`node_modules/.bin/${program}`, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  return new Promise((resolve) => {
    const end = (passed: boolean, reason = '') =>
      resolve({ ...check, passed, seconds: (performance.now() - started) / 1000, output: output + reason });
    child.on('error', (error) => end(false, error.message));
    child.on('close', (code) => end(code === 0));
  });
}

const outcomes = await Promise.all(CHECKS.map(run));
for (const { name, passed, seconds, output, tells = false } of outcomes) {
  console.log(`${passed ? 'ok    ' : 'FAILED'}  ${name} (${seconds.toFixed(1)} s)`);
  if ((!passed || tells) && output !== '') console.log(output.trimEnd());
}
process.exitCode = outcomes.every((outcome) => outcome.passed) ? 0 : 1;
