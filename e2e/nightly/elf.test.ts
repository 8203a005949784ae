import { closeSync, mkdirSync, mkdtempSync, openSync, readSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { architectureOf, programsIn } from './elf.ts';

const OWN = process.arch === 'x64' ? 'amd64' : process.arch;

function head(): Buffer {
  const bytes = Buffer.alloc(64);
  const program = openSync(process.execPath, 'r');
  readSync(program, bytes);
  closeSync(program);
  return bytes;
}

it('the program that runs this is for this machine', () => {
  expect(architectureOf(head())).toBe(OWN);
});

it('each architecture is recognised, in either byte order, and an unknown one is shown by its number', () => {
  const other = (machine: number, isBigEndian = false) => {
    const bytes = head();
    bytes[5] = isBigEndian ? 2 : 1;
    if (isBigEndian) bytes.writeUInt16BE(machine, 18);
    else bytes.writeUInt16LE(machine, 18);
    return architectureOf(bytes);
  };
  expect([other(0x3e), other(0xb7), other(0xb7, true), other(3)]).toEqual([
    'amd64',
    'arm64',
    'arm64',
    'machine 3',
  ]);
});

it('other files are no programs', () => {
  for (const text of ['', '\x7fELF', '#!/bin/sh\nexec node main.mjs\n'])
    expect(architectureOf(Buffer.from(text, 'latin1'))).toBeUndefined();
});

it('programs are found at any depth, and links out of the image are not followed', () => {
  const directory = mkdtempSync(join(tmpdir(), 'space-elf-'));
  mkdirSync(join(directory, 'usr/bin'), { recursive: true });
  const program = head();
  program.writeUInt16LE(0xb7, 18);
  writeFileSync(join(directory, 'usr/bin/node'), program);
  writeFileSync(join(directory, 'usr/main.mjs'), 'text');
  symlinkSync(dirname(process.execPath), join(directory, 'out'));
  symlinkSync(process.execPath, join(directory, 'program'));
  expect([...programsIn(directory)]).toEqual([['/usr/bin/node', 'arm64']]);
});
