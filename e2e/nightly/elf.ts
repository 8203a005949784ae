import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';

/** `e_machine` of the ELF specification, by the architecture of an image's configuration. */
const MACHINES: Readonly<Record<number, string>> = { 62: 'amd64', 183: 'arm64' };
const MAGIC = '\x7fELF';
const MACHINE_AT = 18;

/**
 * The architecture that a program, library or object file is built for; undefined if `head`, its first bytes, is of
 * another kind of file.
 */
export function architectureOf(head: Buffer): string | undefined {
  if (head.length < MACHINE_AT + 2 || head.toString('latin1', 0, MAGIC.length) !== MAGIC) return undefined;
  const isBigEndian = head[5] === 2;
  const machine = isBigEndian ? head.readUInt16BE(MACHINE_AT) : head.readUInt16LE(MACHINE_AT);
  return MACHINES[machine] ?? `machine ${machine}`;
}

/**
 * All such files below a directory, each with its architecture. Links are not followed, since they may lead out of
 * the image.
 */
export function programsIn(directory: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const waiting = [directory];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
    for (const entry of readdirSync(next, { withFileTypes: true })) {
      const path = join(next, entry.name);
      if (entry.isDirectory()) waiting.push(path);
      const architecture = entry.isFile() ? architectureOf(headOf(path)) : undefined;
      if (architecture !== undefined) found.set(path.slice(directory.length), architecture);
    }
  return found;
}

function headOf(file: string): Buffer {
  const descriptor = openSync(file, 'r');
  try {
    const head = Buffer.alloc(MACHINE_AT + 2);
    return head.subarray(0, readSync(descriptor, head));
  } finally {
    closeSync(descriptor);
  }
}
