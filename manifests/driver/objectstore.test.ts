import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formats, isFieldValue } from './formats.ts';
import { credentialForm, objectStoreDocument } from './objectstore.ts';

const read = (file: string) => JSON.parse(readFileSync(join(import.meta.dirname, file), 'utf8'));
const document = read('objectstore.json');
const form = read('objectstore-credentials.json');
const schemas = { document: objectStoreDocument, form: credentialForm };

/** Every place in a value, as the keys that lead there. */
function placesOf(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, inner]) => placesOf(inner, [...path, key]))];
}

/** A copy in which the place holds something else, or nothing. */
function changed(value: unknown, path: readonly string[], to: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return to;
  const copy = structuredClone(value) as Record<string, unknown>;
  const parent = path.slice(0, -1).reduce((at, one) => at[one] as Record<string, unknown>, copy);
  const last = rest.at(-1) ?? key;
  if (to !== undefined) parent[last] = to;
  else if (Array.isArray(parent)) parent.splice(Number(last), 1);
  else delete parent[last];
  return copy;
}

describe('the documents of the image', () => {
  it('are as the interface requires', () => {
    expect(objectStoreDocument.parse(document)).toMatchObject({
      spec: 1,
      protocol: 'platform.objectstore/v1',
      scope: 'space',
      data_plane: 'brokered',
      credential_policy: 'managed-or-byok',
    });
    expect(credentialForm.parse(form)).toMatchObject({ owner_scope: 'capsule', cardinality: 'many' });
  });

  it.each([
    ['a Capsule-scoped service', document, ['scope'], 'capsule', /scoped to a Capsule/],
    ['a required key of one’s own', document, ['credential_policy'], 'byok', /optional and never required/],
    ['one without the managed key', document, ['credential_policy'], 'byok-required', /never required/],
    ['a direct data plane', document, ['data_plane'], 'direct', /no key of the store/],
    ['another protocol', document, ['protocol'], 'platform.objectstore/v2', /platform.objectstore\/v1/],
    ['another spec', document, ['spec'], 2, /1/],
    ['a form of the Space', form, ['owner_scope'], 'space', /capsule/],
    ['a single set', form, ['cardinality'], 'one', /many/],
    ['an unknown format', form, ['forms', '0', 'fields', '1', 'format'], 's3-session', /not a format of v1/],
    ['a secret that is shown', form, ['forms', '0', 'fields', '5', 'secret'], false, /is secret/],
    ['a secret in clear', form, ['forms', '0', 'fields', '5', 'type'], 'text', /is a password/],
    ['bounds that its format lacks', form, ['forms', '0', 'fields', '2', 'max'], 64, /outside 3 to 63/],
    ['bounds that are reversed', form, ['forms', '0', 'fields', '2', 'min'], 63.5, /int/],
    ['an optional field', form, ['forms', '0', 'fields', '2', 'required'], false, /true/],
  ])('refuse %s, with a reason', (_, original, path, to, reason) => {
    const schema = original === document ? schemas.document : schemas.form;
    const outcome = schema.safeParse(changed(original, path, to));
    expect(outcome.error?.issues.map(({ message }) => message).join()).toMatch(reason);
    expect(outcome.error?.issues[0]?.path.map(String)).toEqual(path);
  });

  it.each([
    ['document', document],
    ['form', form],
  ] as const)('refuse a %s with anything missing or more', (name, original) => {
    const schema = schemas[name];
    for (const path of placesOf(original)) {
      // Which operations are served is checked against the routes.
      if (path.length > 0 && !Array.isArray(parentOf(original, path)))
        expect(schema.safeParse(changed(original, path, undefined)).success, path.join('/')).toBe(false);
      const at = path.reduce((value, key) => value[key], original);
      if (typeof at === 'object' && at !== null && !Array.isArray(at))
        expect(schema.safeParse(changed(original, path, { ...at, more: 1 })).success, path.join('/')).toBe(
          false,
        );
    }
  });

  it.each([
    ['document', document],
    ['form', form],
  ] as const)('refuse a %s with anything of another kind', (name, original) => {
    const places = placesOf(original);
    const other = fc.oneof(fc.constant(null), fc.boolean(), fc.double(), fc.array(fc.string()), fc.object());
    fc.assert(
      fc.property(fc.constantFrom(...places), other, (path, to) => {
        const at = path.reduce((value, key) => value[key], original);
        fc.pre(typeof at !== typeof to || Array.isArray(at) !== Array.isArray(to) || to === null);
        expect(schemas[name].safeParse(changed(original, path, to)).success).toBe(false);
      }),
      { numRuns: 500 },
    );
  });
});

function parentOf(value: unknown, path: readonly string[]): unknown {
  return path.slice(0, -1).reduce((at, key) => (at as Record<string, unknown>)[key], value);
}

describe('a value of the form', () => {
  const fields = credentialForm.parse(form).forms[0].fields;
  const accepts = (id: string, text: string) => {
    const field = fields.find((one) => one.id === id);
    if (field === undefined) throw new Error(`no field ${id}`);
    return isFieldValue(text, field);
  };

  it.each([
    ['endpoint', 'https://s3.eu-central-1.example.com'],
    ['endpoint', 'https://a.bc:8443'],
    ['endpoint', `https://${'a'.repeat(63)}.${'b'.repeat(63)}.example.net:65535`],
    ['region', 'auto'],
    ['region', 'eu-central-1'],
    ['bucket', 'my.bucket-1'],
    ['addressing', 'path'],
    ['addressing', 'virtual-host'],
    ['access-key-id', 'GK31c2f218a2e44f485b94239e'],
    ['secret-access-key', 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY='],
  ])('%s may be %s', (id, text) => {
    expect(accepts(id, text)).toBe(true);
  });

  it.each([
    ['endpoint', 'http://s3.example.com'],
    ['endpoint', 'https://localhost'],
    ['endpoint', 'https://10.0.0.1'],
    ['endpoint', 'https://[::1]'],
    ['endpoint', 'https://S3.example.com'],
    ['endpoint', 'https://s3.example.com/'],
    ['endpoint', 'https://s3.example.com/path'],
    ['endpoint', 'https://user@s3.example.com'],
    ['endpoint', 'https://s3.example.com?x'],
    ['endpoint', 'https://s3.example.com:443'],
    ['endpoint', 'https://s3.example.com:0'],
    ['endpoint', 'https://s3.example.com:65536'],
    ['endpoint', 'https://s3..example.com'],
    ['endpoint', 'https://-s3.example.com'],
    ['endpoint', 'https://s3.example.com\n'],
    ['region', 'EU'],
    ['region', 'eu--1'],
    ['region', ''],
    ['bucket', 'ab'],
    ['bucket', 'a..b'],
    ['bucket', '10.0.0.1'],
    ['bucket', 'xn--bucket'],
    ['bucket', 'Bucket'],
    ['bucket', `${'a'.repeat(64)}`],
    ['addressing', 'virtual'],
    ['access-key-id', 'ab'],
    ['access-key-id', 'key id'],
    ['secret-access-key', 'short'],
    ['secret-access-key', 'with a space in it'],
    ['secret-access-key', 'line\r\nbreak'],
    ['secret-access-key', 'ümlaut-ümlaut'],
  ])('%s is never %j', (id, text) => {
    expect(accepts(id, text)).toBe(false);
  });

  it('contains nothing that could split a line or exceed its bounds', () => {
    fc.assert(
      fc.property(fc.constantFrom(...fields), fc.string({ unit: 'binary' }), (field, text) => {
        if (!isFieldValue(text, field)) return;
        expect(text).toMatch(/^[\x21-\x7e]+$/);
        expect(text.length).toBeGreaterThanOrEqual(field.min);
        expect(text.length).toBeLessThanOrEqual(field.max);
      }),
      { numRuns: 2_000 },
    );
    expect(Object.keys(formats)).toHaveLength(fields.length);
  });
});
