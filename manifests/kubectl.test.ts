/** The cluster's own kubectl, as another reader of the same YAML. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findTool } from '../e2e/cluster/tools.ts';
import { errorList } from './parse/error.ts';
import { readYaml } from './parse/yaml.ts';

let directory: string;
let kubectl: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-yaml-'));
  kubectl = await findTool('kubectl', directory);
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** What kubectl would send of a file; undefined if it refuses the file. */
function theirs(text: string): unknown {
  const args = ['annotate', '--local', '--filename=-', '--output=json', 'a=b'];
  const { status, stdout } = spawnSync(kubectl, args, { input: text, encoding: 'utf8' });
  return status === 0 ? JSON.parse(stdout).spec : undefined;
}

/** What we read, if nothing about it is refused. */
function ours(text: string): { readonly spec: unknown } | undefined {
  const { errors, report } = errorList();
  const [document] = readYaml(text, report);
  return errors.length > 0 ? undefined : (document?.value as { readonly spec: unknown });
}

const HEAD = 'apiVersion: platform.space/v1\nkind: Assistant\nmetadata:\n  name: a\nspec:\n';
const letters = [...'0123456789', ...'0_._-+:eExXoObBaAfF'];
const word = fc
  .array(fc.constantFrom(...letters), { minLength: 1, maxLength: 6 })
  .map((all) => all.join(''))
  // A dash or a colon at an edge makes the word no word.
  .filter((text) => !/^-$|^[-:]|[:-]$|--/.test(text) && Math.abs(Number(text)) !== Number.POSITIVE_INFINITY);

it('what is accepted as a word is the same text, number or boolean for kubectl', () => {
  const SURE = [
    '~',
    'null',
    'TRUE',
    'yes',
    'No',
    'on',
    'y',
    '0X1F',
    '0B11',
    '0O17',
    '0x_1',
    '1_0e3',
    '-_1',
    '0.1_5',
    '.0_0',
    '0_X0',
    '-_0_x_1',
  ];
  fc.assert(
    fc.property(fc.uniqueArray(word, { minLength: 300, maxLength: 300 }), (words) => {
      const line = (one: string, index: number) => `  w${index}: ${one}\n`;
      const kept = [...SURE, ...words].filter((one) => ours(HEAD + line(one, 0)) !== undefined);
      expect(kept.length).toBeGreaterThan(100);
      const text = HEAD + kept.map(line).join('');
      expect(theirs(text)).toEqual(ours(text)?.spec);
    }),
    { numRuns: 5 },
  );
});

it('what is accepted has no line that only kubectl sees', () => {
  const piece = fc.constantFrom(
    ...[
      '  a: 1\n',
      '  b: x # note',
      '# note',
      '  c: "x',
      '"',
      '  d: |\n    x',
      '  e: [x,',
      ']',
      '  f: >-\n    y',
    ],
    ...['\n', '\r\n', '\r', '\u0085', '\u2028', '\u2029', '\ufeff', '\t', ' ', '  g: 2', 'z', '\u00a0'],
  );
  let accepted = 0;
  fc.assert(
    fc.property(fc.array(piece, { minLength: 2, maxLength: 12 }), (pieces) => {
      const text = `${HEAD}  first: 0\n${pieces.join('')}\n`;
      const mine = ours(text);
      if (mine === undefined) return;
      const sent = theirs(text);
      if (sent === undefined) return;
      accepted += 1;
      expect(sent).toEqual(mine.spec);
    }),
    { numRuns: 600 },
  );
  expect(accepted).toBeGreaterThan(20);
});
