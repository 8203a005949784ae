#!/usr/bin/env node
import { open, readFile, rm } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { run } from './run.ts';

// What cannot be said, as on a full disk, must not end with 1, which would be a verdict on a manifest.
process.stdout.on('error', ({ message }) => {
  process.stderr.write(`standard output: ${message}\n`);
  process.exit(2);
});

process.exitCode = await run(process.argv.slice(2), {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  read: (file) => (file === '-' ? buffer(process.stdin) : readFile(file)),
  create,
  remove: (file) => rm(file),
});

/** A file that cannot be written whole, as on a full disk, is removed; one that was there before is left alone. */
async function create(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx');
  try {
    await handle.writeFile(text).finally(() => handle.close());
  } catch (error) {
    await rm(file);
    throw error;
  }
}
