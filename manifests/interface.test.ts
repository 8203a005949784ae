import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { manifestSchema } from './derive/schemas.ts';
import { checkManifest, parseManifest } from './index.ts';
import { zodOf } from './parse/zod.ts';
import { manifest } from './rules/manifest.ts';
import { SENTENCES } from './testing/sentences.ts';

const zod = zodOf(manifest);
const ajv = new Ajv2020({ strict: false }).compile(manifestSchema());

describe('every sentence of the interface, with accepted and refused examples', () => {
  for (const { says, manifest: value, broken, rule } of SENTENCES) {
    it(`${broken === undefined ? 'accepts' : 'refuses'}: ${says.replaceAll(/[^ -~]/g, '?').slice(0, 120)}`, () => {
      const result = parseManifest(JSON.stringify(value));
      const told = result.ok ? [] : result.errors.map((error) => `${error.pointer} ${error.rule}`);
      expect(told).toEqual(broken === undefined ? [] : [`${broken} ${rule}`]);
      expect(checkManifest(value).ok).toBe(broken === undefined);
      expect(zod.safeParse(value).success).toBe(broken === undefined);
      expect(ajv(value)).toBe(broken === undefined);
    });
  }
});
