import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';

/** Runs the code with a logger on standard output, in a process of its own. */
async function logged(code: string, onLine?: (line: string, kill: () => void) => void): Promise<string[]> {
  const module = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);
  const source = `
    import { gatheredOutput } from ${module('./gathered-output.ts')};
    import { createLogger } from ${module('./log.ts')};
    const log = createLogger({ service: 'test', level: 'info', destination: gatheredOutput(Number(process.argv[1])) });
    ${code}`;
  const delay = onLine === undefined ? '3600000' : '1';
  const child = spawn(process.execPath, ['--input-type=module', '-e', source, delay], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  child.stdout.on('data', (chunk: Buffer) => onLine?.(chunk.toString(), () => child.kill('SIGKILL')));
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { msg: string }).msg);
}

const LINES = 'for (let i = 0; i < 500; i += 1) log.info(String(i));';
const ALL = Array.from({ length: 500 }, (_, i) => String(i));

describe('buffered output', () => {
  it.each([
    ['a process runs out of work', ''],
    ['it exits', 'process.exit();'],
    [
      'it is asked to end',
      "process.on('SIGTERM', () => process.exit()); process.kill(process.pid, 'SIGTERM');",
    ],
    ['an error that nobody caught ends it', "throw new Error('x');"],
  ])('is complete and in order when %s', async (_, end) => {
    expect(await logged(`${LINES} ${end}`)).toEqual(ALL);
  });

  it('has an error and everything before it even if the process is killed', async () => {
    const end = "log.error('error'); process.kill(process.pid, 'SIGKILL');";
    expect(await logged(`${LINES} ${end}`)).toEqual([...ALL, 'error']);
  });

  it('is complete and in order, however long lines are and however late it is read', async () => {
    // Reading this property makes the output non-blocking.
    const late = 'process.stdout; const long = "\\u20ac".repeat(20_000);';
    const lines = 'for (let i = 0; i < 20; i += 1) { log.info("short" + i); log.info(long + i); }';
    const expected = Array.from({ length: 20 }, (_, i) => [`short${i}`, `${'€'.repeat(20_000)}${i}`]).flat();
    expect(await logged(`${late} ${lines}`)).toEqual(expected);
  });

  it('writes a single line without waiting for another', async () => {
    const seen: string[] = [];
    const idle = "log.info('alone'); setInterval(() => undefined, 60_000);";
    await logged(idle, (line, kill) => {
      seen.push(line);
      kill();
    });
    expect(seen.join('')).toContain('"msg":"alone"');
  });
});
