import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonSchema } from './derive/json-schema.ts';
import { manifestSchema } from './derive/schemas.ts';
import {
  canonicalJson,
  checkAssistantSpec,
  checkCapsuleSpec,
  checkManifest,
  parseManifest,
} from './index.ts';
import { assistantSpec } from './rules/assistant.ts';
import { capsuleSpec } from './rules/capsule.ts';
import { manifest } from './rules/manifest.ts';
import { accepted } from './testing/arbitrary.ts';
import { edited, mutants } from './testing/mutation.ts';
import { sampleManifest } from './testing/samples.ts';

const ajv = new Ajv2020({ strict: false }).compile(manifestSchema());
const RUNS = 400;

it('accepts every manifest that is generated from the rules, copies it completely and freezes it', () => {
  fc.assert(
    fc.property(accepted(manifest), (value) => {
      const result = parseManifest(JSON.stringify(value));
      if (!result.ok) throw new Error(JSON.stringify(result.errors));
      expect(canonicalJson(result.manifest)).toBe(canonicalJson(value));
      expect(Object.isFrozen(result.manifest.network.allowed_hosts)).toBe(true);
      expect(ajv(value)).toBe(true);
    }),
    { numRuns: RUNS },
  );
});

it('refuses every manifest with one violation, and says where and why', () => {
  fc.assert(
    fc.property(mutants(manifest), ({ how, value }) => {
      const result = checkManifest(value);
      expect(result.ok, how).toBe(false);
      expect(ajv(value), how).toBe(false);
      if (!result.ok) {
        expect(result.errors.length).toBeGreaterThan(0);
        for (const { rule, message } of result.errors) {
          expect(rule).not.toBe('refused');
          expect(message).toMatch(/^[^\p{Cc}\p{Cf}]+$/u);
          expect(message.length).toBeLessThan(500);
        }
      }
    }),
    { numRuns: 2 * RUNS },
  );
});

it('agrees with ajv on manifests with random edits', () => {
  fc.assert(
    fc.property(edited(manifest), ({ how, value }) => {
      expect(checkManifest(value).ok, how).toBe(ajv(value));
    }),
    { numRuns: 2 * RUNS },
  );
});

describe.each([
  ['Capsule', capsuleSpec, checkCapsuleSpec],
  ['Assistant', assistantSpec, checkAssistantSpec],
] as const)('a spec of kind %s', (_kind, rule, check) => {
  const schema = new Ajv2020({ strict: false }).compile(jsonSchema(rule));
  const verdicts = (value: unknown) => [check(value).ok, schema(value)];

  it('is accepted by both if it is generated from the rules, and refused by both with one violation', () => {
    fc.assert(
      fc.property(accepted(rule), (value) => {
        expect(verdicts(value)).toEqual([true, true]);
      }),
      { numRuns: RUNS },
    );
    fc.assert(
      fc.property(mutants(rule), ({ how, value }) => {
        expect(verdicts(value), how).toEqual([false, false]);
      }),
      { numRuns: 2 * RUNS },
    );
  });

  it('gets one verdict with a random edit', () => {
    fc.assert(
      fc.property(edited(rule), ({ how, value }) => {
        // A schema cannot say that no two variables may have one name.
        fc.pre(!hasVariableTwice(value));
        const [ours, theirs] = verdicts(value);
        expect(ours, how).toBe(theirs);
      }),
      { numRuns: 2 * RUNS },
    );
  });
});

function hasVariableTwice(spec: unknown): boolean {
  const { env = [] } = spec as { readonly env?: readonly { readonly name: string }[] };
  return new Set(env.map(({ name }) => name)).size < env.length;
}

it('never shows the genesis, wherever it is', () => {
  const secret = 'the-genesis-text';
  fc.assert(
    fc.property(mutants(manifest), ({ value }) => {
      const { platform } = (value ?? {}) as { platform?: unknown };
      if (typeof platform !== 'object' || platform === null) return;
      const genesis = [secret, secret.repeat(6000), [secret], { secret }][Object.keys(platform).length % 4];
      const result = checkManifest({ ...(value as object), platform: { ...platform, genesis } });
      if (!result.ok) expect(JSON.stringify(result.errors)).not.toContain(secret);
    }),
    { numRuns: RUNS },
  );
});

it.each([
  ['Household', 'identifier'],
  ['house.hold', 'identifier'],
  ['h'.repeat(41), 'length'],
  ['postgres', 'reserved'],
])('refuses an Assistant of a Capsule %s, which is no valid name, by the rule %s', (capsule, rule) => {
  const spec = { capsule, image: 'space/ledger:dev', manifest: sampleManifest() };
  const judged = checkAssistantSpec(spec);
  const errors = judged.ok ? [] : judged.errors;
  expect(errors.map((error) => [error.pointer, error.rule])).toEqual([['/capsule', rule]]);
  expect(checkAssistantSpec({ ...spec, capsule: 'household' }).ok).toBe(true);
});

describe('the name of a Secret', () => {
  const schema = new Ajv2020({ strict: false }).compile(jsonSchema(assistantSpec));
  const errorsOf = (name: string) => {
    const spec = {
      capsule: 'household',
      image: 'space/ledger:dev',
      manifest: sampleManifest(),
      storedInputs: { bank: { secretKeyRef: { name, key: 'value' } } },
    };
    const judged = checkAssistantSpec(spec);
    const errors = judged.ok ? [] : judged.errors.map((error) => `${error.pointer} ${error.rule}`);
    expect(schema(spec)).toBe(judged.ok);
    return errors;
  };

  it.each(['a', '7', 'a.b', 'a-b', 'a--b.7', 'xn--a.b-c.d'])('may be %s', (name) =>
    expect(errorsOf(name)).toEqual([]),
  );

  it.each(['a..b', '.a', 'a.', 'a-.b', 'a.-b', '-a', 'a-', 'A.b', 'a_b'])(
    'is not %s, which Kubernetes lets no Secret have',
    (name) => expect(errorsOf(name)).toEqual(['/storedInputs/bank/secretKeyRef/name dns-name']),
  );
});

it.each([
  ['/env/0/value', { env: [{ name: 'LOG_LEVEL', value: 'de\u0000bug' }] }],
  ['/command/0', { command: ['\u0000'] }],
  ['/args/1', { args: ['--port', '8080\u0000'] }],
])('refuses NUL in %s, since no container would get what comes after it', (pointer, more) => {
  const spec = { capsule: 'household', image: 'space/ledger:dev', manifest: sampleManifest(), ...more };
  const judged = checkAssistantSpec(spec);
  expect(judged.ok ? [] : judged.errors).toEqual([
    {
      pointer,
      rule: 'nul',
      message:
        'must not contain a NUL character (U+0000), at which a variable or an argument ends; found text (not shown)',
    },
  ]);
  expect(new Ajv2020({ strict: false }).compile(jsonSchema(assistantSpec))(spec)).toBe(false);
});
