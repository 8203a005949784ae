import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';

const MODULE = join(import.meta.dirname, 'vault');

export interface Peer {
  /** Creates roles one after another, with this many callers at once. */
  makeRoles(url: string, count: number, callers: number): Promise<{ ms: number[]; seconds: number }>;
  remove(): Promise<void>;
}

/** Builds Vault's PostgreSQL plugin from its pinned module; undefined if there is no Go. */
export async function buildVault(): Promise<Peer | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'space-vault-'));
  const program = join(directory, 'vault');
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    const env = { ...process.env, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '-mod=readonly -buildvcs=false' };
    await promisify(execFile)('go', ['build', '-o', program, '.'], { cwd: MODULE, env });
  } catch (error) {
    await remove();
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  return {
    remove,
    makeRoles: async (url, count, callers) => {
      const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
      child.stdin.end(JSON.stringify({ url, count, callers }));
      return JSON.parse(await text(child.stdout)) as { ms: number[]; seconds: number };
    },
  };
}
