#!/usr/bin/env node
import { readFile, rm, writeFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { run } from './run.ts';

process.exitCode = await run(process.argv.slice(2), {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  read: (file) => (file === '-' ? buffer(process.stdin) : readFile(file)),
  create: (file, text) => writeFile(file, text, { flag: 'wx' }),
  remove: (file) => rm(file),
});
