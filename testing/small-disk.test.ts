import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openSmallDisk } from './small-disk.ts';

it('a small disk leaves no more room than was said, also while somebody writes to it', async (context) => {
  const disk = openSmallDisk();
  if (disk === undefined) return context.skip('this process may not mount a file system of its own');
  const writing = `const { writeSync, openSync } = require('node:fs');
    const file = openSync(process.argv[1], 'w');
    const piece = Buffer.alloc(256 * 1024);
    const end = Date.now() + 1_000;
    try { for (let i = 0; Date.now() < end && i < 400; i += 1) {
      writeSync(file, piece);
      if (i === 0) process.stdout.write('begun');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    } } catch {}`;
  const writer = spawn(process.execPath, ['-e', writing, join(disk.path, 'file')]);
  const ended = once(writer, 'close');
  try {
    await once(writer.stdout, 'data');
    disk.leave(64 * 2 ** 10);
    const { bfree, bsize } = statfsSync(disk.path);
    expect(bfree * bsize).toBeLessThanOrEqual(64 * 2 ** 10);
  } finally {
    await ended;
    disk.close();
  }
});
