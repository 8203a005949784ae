import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { manifestSchema } from '../derive/schemas.ts';
import { parseManifest } from '../index.ts';
import { manifest } from '../rules/manifest.ts';
import type { StringRule } from '../rules/rule.ts';
import { type Place, places, replaced } from '../testing/mutation.ts';
import { sampleManifest } from '../testing/samples.ts';
import { pointerTo } from './error.ts';
import { parserOf } from './parser.ts';

const SIZE = 8 * 1024 * 1024;
/** Of one character each, so that the length is known; what patterns go through is longest when it fits them. */
const FILLINGS = [
  'a',
  '1',
  '.',
  '-',
  '/',
  '%',
  ' ',
  '*',
  '@',
  '"',
  '\\',
  '\n',
  '\u0000',
  '\u200b',
  'é',
  '🪙',
];

const ajv = new Ajv2020({ strict: false, allErrors: true }).compile(manifestSchema());
const parser = parserOf<unknown>(manifest);

/** Everything that a manifest may have, with a value in it that its rule accepts. */
function everything(): object {
  const sample = structuredClone(sampleManifest({ inputs: 2, routes: 2, selectors: 1 }));
  const { platform, stored_inputs = {} } = sample;
  const { header: _, scheme: __, ...input } = stored_inputs['bank-1'] ?? {};
  const links = {
    ...platform.links,
    microblog: 'https://x.com/ada',
    video: 'https://youtube.com/ada',
    professional: 'https://linkedin.com/ada',
    photo: 'https://instagram.com/ada',
  };
  const second = { ...input, query: 'api_key', hmac: 'sha256-body' };
  return {
    ...sample,
    platform: { ...platform, links },
    stored_inputs: { ...stored_inputs, 'bank-1': second },
  };
}

const whole = everything();
const texts = places(manifest, whole).filter(
  (place): place is Place & { readonly rule: StringRule; readonly value: string } =>
    place.rule.kind === 'string',
);
const bounded = texts.filter(({ rule }) => rule.max !== undefined);

/** Text of a value's own beginning, or of nothing, and of so much more. */
const endless = (value: string) =>
  fc
    .tuple(fc.nat(value.length), fc.array(fc.constantFrom(...FILLINGS), { minLength: 1, maxLength: 3 }))
    .map(([kept, piece]) => {
      const head = value.slice(0, kept);
      return {
        text: head + piece.join('').repeat(Math.floor(SIZE / piece.length)),
        length: kept + piece.length * Math.floor(SIZE / piece.length),
        how: `${JSON.stringify(head)} and ${JSON.stringify(piece)} for ever`,
      };
    });

describe('a text of 8 MiB', () => {
  it('is accepted in a manifest that can be stored', () => {
    expect(parser.check(whole).ok).toBe(true);
    expect(bounded.length).toBeGreaterThan(30);
  });

  it('is too long, wherever it is and whatever it contains, with no other error about it', () => {
    const hostile = fc
      .constantFrom(...bounded)
      .chain((place) => endless(place.value).map((text) => ({ place, ...text })));
    fc.assert(
      fc.property(hostile, ({ place: { path, rule }, text, length, how }) => {
        const value = replaced(whole, path, text);
        const { min, max = 0 } = rule;
        const allowed = min === 0 ? `at most ${max}` : `${min} to ${max}`;
        const message = `must have ${allowed} characters; found ${length} characters`;
        const where = `${pointerTo(path)}: ${how}`;
        const errors = [{ pointer: pointerTo(path), rule: 'length', message }];
        expect(parseManifest(JSON.stringify(value)), where).toEqual({ ok: false, errors });
        expect(ajv(value), where).toBe(false);
      }),
      { numRuns: 4 },
    );
  });

  it('is too long for a key, and its children do not repeat it in their errors', () => {
    for (const block of ['integrations', 'stored_inputs']) {
      fc.assert(
        fc.property(endless('bank'), ({ text, length }) => {
          const wrong = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`k${i}`, 1]));
          const judged = parser.parse(JSON.stringify({ ...whole, [block]: { [text]: wrong } }));
          const errors = judged.ok ? [] : judged.errors;
          expect(errors.map(({ rule }) => rule)).toEqual(['length', 'too-many-errors']);
          expect(errors[0]?.pointer).toBe(pointerTo([block, text]));
          expect(errors[0]?.message).toContain(`must have 1 to 64 characters; found ${length} characters`);
        }),
        { numRuns: 2 },
      );
    }
  });

  it('is valid as a version, which is limited only by what can be stored', () => {
    const version = (text: string) => replaced(whole, ['platform', 'version'], text);
    const digits = '1'.repeat(SIZE);
    for (const text of [`${digits}.0.0`, `0.${digits}.0`, `0.0.${digits}`]) {
      const judged = parser.check(version(text));
      expect(judged).toMatchObject({ ok: true, tooLarge: { rule: 'storage-size' } });
      expect(ajv(version(text))).toBe(true);
    }
    fc.assert(
      fc.property(endless('1.4.0'), ({ text }) => {
        const rules = parser.check(version(`${text}!`));
        expect(rules.ok ? [] : rules.errors.map(({ rule }) => rule)).toEqual(['version']);
      }),
      { numRuns: 8 },
    );
  });

  it('is read to its end, with an error at the place where it breaks off', () => {
    for (const piece of ['\\u0041', '\\n', 'a\\\\', '\\ud83e\\ude99']) {
      const text = piece.repeat(SIZE / piece.length);
      expect(parser.parse(`"${text}"`)).toMatchObject({ ok: false, errors: [{ rule: 'type' }] });
      expect(parser.parse(`"${text}\\x"`)).toMatchObject({ ok: false, errors: [{ rule: 'json' }] });
    }
  });
});
