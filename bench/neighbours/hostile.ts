import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Act } from './acts.ts';

export interface Hostile {
  /** Ends it; resolves to the results of its acts, counted by kind. */
  end(): Promise<Readonly<Record<string, number>>>;
}

/** Starts a hostile tenant in a process of its own; resolves when its acts have begun. */
export async function startHostile(acts: readonly Act[]): Promise<Hostile> {
  const program = join(import.meta.dirname, 'hostile-process.ts');
  const child = spawn(process.execPath, [program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => undefined);
  child.stdin.write(`${JSON.stringify(acts)}\n`);
  const gone = once(child, 'exit');
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout }).on('line', (line) => void lines.push(line));
  const begun = await Promise.race([once(reader, 'line'), gone.then(() => undefined)]);
  if (begun === undefined) throw new Error('the hostile process did not begin');
  return {
    end: async () => {
      child.stdin.end();
      await gone;
      return JSON.parse(lines.at(-1) ?? '{}') as Record<string, number>;
    },
  };
}
