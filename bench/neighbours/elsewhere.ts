import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Act } from './acts.ts';

/** Uses a processor and no other shared resource: in the list of columns the series is streamed, while a table would be a file. */
export const COMPUTE = 'SELECT count(*) FROM (SELECT generate_series(1, 5000000)) AS streamed';

/**
 * The same acts without contact to the service of the quiet tenant: requests and connections go to a server that does
 * nothing, and sessions only compute. The quiet tenant then waits only for the processors of the machine, which no service
 * could distribute better.
 */
export interface Elsewhere {
  of(acts: readonly Act[]): readonly Act[];
  close(): Promise<void>;
}

export async function openElsewhere(): Promise<Elsewhere> {
  const program = join(import.meta.dirname, 'nowhere-process.ts');
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  const { port } = JSON.parse(line) as { readonly port: number };
  const moved = (act: Act): Act => {
    switch (act.kind) {
      case 'sql':
      case 'unread':
        return { kind: 'sql', url: act.url, sessions: act.sessions, statements: [COMPUTE] };
      case 'logins':
        return { kind: 'sql', url: act.url, sessions: 5, statements: [COMPUTE] };
      default:
        return { ...act, port };
    }
  };
  return {
    of: (acts) => acts.map(moved),
    close: async () => {
      const gone = once(child, 'exit');
      child.stdin.end();
      await gone;
    },
  };
}
