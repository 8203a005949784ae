import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The result of one case. */
export interface Outcome {
  readonly by: string;
  readonly case: string;
  readonly failed?: string;
}

/** Why a client is not available on this machine. */
export class Missing extends Error {}

export async function outcomeOf(by: string, name: string, act: () => Promise<void>): Promise<Outcome> {
  try {
    await act();
    return { by, case: name };
  } catch (error) {
    return { by, case: name, failed: String(error).slice(-400) };
  }
}

export function equal(found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected))
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`.slice(0, 300));
}

export function like(text: string, expected: RegExp): void {
  if (!expected.test(text)) throw new Error(`${JSON.stringify(text.slice(-300))} is not like ${expected}`);
}

/** Names that clients have to escape in some way. */
export const NAMES = [
  'plain.txt',
  'with space',
  'ä-ö',
  '日本語',
  '😀',
  'a+b',
  '100%',
  '%41',
  "q'uote",
  'd"quote',
  '(a)!',
  'a;b=c,d@e$f',
  '[x]{y}~z^`',
  '#hash',
  'a&b',
  '.hidden',
  'deep/er/still',
  'x'.repeat(200),
];

/** Writes files into a directory. */
export function write(directory: string, files: Readonly<Record<string, string | Buffer>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), content);
  }
}

export const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');
export const md5 = (file: string): string => createHash('md5').update(readFileSync(file)).digest('hex');
