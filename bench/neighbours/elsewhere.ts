import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Act } from './acts.ts';

/** Takes a processor and nothing else that is shared: in the list of columns a series is not kept, as a table it is a file. */
export const COMPUTE = 'SELECT count(*) FROM (SELECT generate_series(1, 5000000)) AS streamed';

/**
 * The same acts where they meet nothing that the quiet tenant uses: requests and connections at a server that does
 * nothing, and sessions that only compute. What the quiet tenant waits for then is the processors that all share, also
 * with the hostile process, and nothing that a service could share out.
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
