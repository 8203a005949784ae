import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of its own, in memory, of which a test says how much room it has. */
export interface SmallDisk {
  readonly path: string;
  /** Leaves room for no more than so many bytes beside what is on it now. */
  leave(bytes: number): void;
  close(): void;
}

const ROOM = 512 * 2 ** 20;

/** How long a server may go on writing more than the room that is to be left. */
const PATIENCE_MS = 20_000;

function takenOn(path: string): number {
  const { blocks, bfree, bsize } = statfsSync(path);
  return (blocks - bfree) * bsize;
}

/** Undefined where this process may not mount one. */
export function openSmallDisk(): SmallDisk | undefined {
  const path = mkdtempSync(join(tmpdir(), 'space-disk-'));
  const run = (program: string, ...args: string[]) => spawnSync(program, args, { encoding: 'utf8' });
  const mounted = run('mount', '-t', 'tmpfs', '-o', `size=${ROOM},mode=711`, 'space-disk', path);
  if (mounted.status !== 0) {
    rmdirSync(path);
    return undefined;
  }
  return {
    path,
    leave(bytes) {
      for (const end = Date.now() + PATIENCE_MS; ; ) {
        const size = takenOn(path) + bytes;
        const { status, stderr } = run('mount', '-o', `remount,size=${size}`, path);
        if (status === 0) return;
        // A server wrote more than that before the program was there, and no disk is smaller than what is on it; mount says
        // "not mounted or bad option" then.
        if (Date.now() > end) throw new Error(`the disk could not be given ${size} bytes: ${stderr}`);
      }
    },
    close() {
      // A lazy unmount also works while some process has a file open there.
      run('umount', '--lazy', path);
      rmdirSync(path);
    },
  };
}
