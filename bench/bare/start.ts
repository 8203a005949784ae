import { join } from 'node:path';
import { askedFlags } from '../../testing/installed/image.ts';
import { type Server, startServer } from '../../testing/installed/server.ts';

/** The name of the contestants that only pass on what they get: what Node alone costs, whatever else a service does. */
export const BARE = 'bare Node';

/** Starts a program of this folder on Node, which gets its port and these arguments. */
export function startBare(
  file: 'objects-process.ts' | 'gateway-process.ts',
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Server> {
  return startServer(BARE, { program: process.execPath, env }, async (port) => [
    ...askedFlags(),
    join(import.meta.dirname, file),
    String(port),
    ...args,
  ]);
}
