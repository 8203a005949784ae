import { describe, expect, test } from 'vitest';
import type { Context } from '../../context.ts';
import type { Assistant, SecretObject } from '../../kinds.ts';
import { ApiError } from '../../runtime/errors.ts';
import { judgeInput, readStoredInputs } from './entered.ts';

const encoded = (text: string | Buffer) => Buffer.from(text).toString('base64');
const made = (changes: Partial<SecretObject> = {}): SecretObject => ({
  metadata: { name: 'bank', uid: 'u', resourceVersion: '7', labels: { 'platform.space/capsule': 'home' } },
  type: 'platform.space/stored-input',
  data: { value: encoded('correct horse') },
  ...changes,
});
const judge = (secret: SecretObject | undefined) =>
  judgeInput({ key: 'bank', capsule: 'home', ref: { name: 'bank', key: 'value' }, secret });

test('a Secret with the type and label of a stored input of this Capsule is accepted', () => {
  const found = judge(made());
  expect(found).toMatchObject({ secret: 'bank', uid: 'u', resourceVersion: '7' });
  expect('value' in found && found.value.reveal()).toBe('correct horse');
  expect(JSON.stringify(found)).not.toContain('horse');
});

test('a value of the maximum length is accepted, also with a byte order mark, and nothing is added to it', () => {
  const longest = judge(made({ data: { value: encoded('h'.repeat(4096)) } }));
  expect('value' in longest && longest.value.reveal().length).toBe(4096);
  const marked = judge(made({ data: { value: encoded('\ufeffhorse') } }));
  expect('value' in marked && marked.value.reveal()).toBe('\ufeffhorse');
  const labels = { 'platform.space/capsule': 'home' };
  expect(judge(made({ metadata: { name: 'bank', labels } }))).toMatchObject({ uid: '', resourceVersion: '' });
  expect(judge(made({ data: { value: undefined as unknown as string } }))).toMatchObject({
    reason: 'InputInvalid',
  });
});

describe('a Secret that an Assistant names', () => {
  const reading = async (storedInputs: unknown, keys: readonly string[]) => {
    const asked: string[] = [];
    const call = async ({ path }: { path: string }) => {
      asked.push(path);
      if (path.endsWith('/gone')) throw new ApiError({ status: 404, reason: 'NotFound', message: 'gone' });
      return made();
    };
    const context = { client: { call }, names: { namespace: 'home' } } as unknown as Context;
    const assistant = { spec: { capsule: 'home', storedInputs } } as unknown as Assistant;
    const manifest = { stored_inputs: Object.fromEntries(keys.map((key) => [key, {}])) } as never;
    const { values, problems } = await readStoredInputs(
      context,
      assistant,
      manifest,
      new AbortController().signal,
    );
    return {
      asked,
      values: [...values].map(([key, { value }]) => [key, value.reveal()]),
      problems: [...problems].map(([key, { reason, message }]) => [key, reason, message]),
    };
  };
  const ref = (name: unknown, key: unknown = 'value') => ({ secretKeyRef: { name, key } });

  test('is read from the Space’s namespace, each value under its key, and reported if it is missing', async () => {
    const found = await reading({ bank: ref('bank'), mail: ref('gone') }, ['bank', 'mail', 'other']);
    expect(found.asked.toSorted()).toEqual([
      '/api/v1/namespaces/home/secrets/bank',
      '/api/v1/namespaces/home/secrets/gone',
    ]);
    expect(found.values).toEqual([['bank', 'correct horse']]);
    expect(found.problems.map(([key, reason]) => [key, reason])).toEqual([
      ['other', 'InputsMissing'],
      ['mail', 'InputSecretNotFound'],
    ]);
    expect(found.problems[0]?.[2]).toContain('No Secret is bound for: other.');
  });

  test('is not read for an input that the manifest does not have', async () => {
    expect(await reading({ bank: ref('bank') }, [])).toEqual({ asked: [], values: [], problems: [] });
  });

  test.each([
    ['nothing', undefined],
    ['no reference', {}],
    ['null', { secretKeyRef: null }],
    ['a text', { secretKeyRef: 'bank' }],
    ['no name', ref(undefined)],
    ['an empty name', ref('')],
    ['a number', ref(1)],
    ['no key', { secretKeyRef: { name: 'bank' } }],
    ['a number for a key', ref('bank', 1)],
  ])('is ignored if an older schema has let through %s', async (_, bound) => {
    const found = await reading({ bank: bound, also: bound }, ['bank', 'also']);
    expect([found.asked, found.values]).toEqual([[], []]);
    expect(found.problems.map(([key, reason]) => [key, reason])).toEqual([
      ['bank', 'InputsMissing'],
      ['also', 'InputsMissing'],
    ]);
    expect(found.problems[0]?.[2]).toContain('No Secret is bound for: bank, also.');
  });
});

test('a value that somebody has entered and that cannot be used is told from one that is missing', () => {
  const isEntered = (value: string | Buffer) => {
    const judged = judge(made({ data: { value: encoded(value) } }));
    return 'isEntered' in judged && judged.isEntered;
  };
  expect(['horse\n', Buffer.of(0xff), 'h'.repeat(4097)].map(isEntered)).toEqual([true, true, true]);
  expect(isEntered('')).toBe(false);
  expect(judge(made({ data: {} }))).toMatchObject({ reason: 'InputInvalid', isEntered: false });
});

describe('it is refused', () => {
  const labelled = (labels: Record<string, string>) => ({ metadata: { name: 'bank', labels } });
  test.each<[string, SecretObject | undefined, string, string]>([
    ['when it is not there', undefined, 'InputSecretNotFound', 'platform.space/capsule=home'],
    ['when it is of another type', made({ type: 'Opaque' }), 'InputSecretRefused', 'type'],
    [
      'when its type is not known',
      made({ type: undefined as unknown as string }),
      'InputSecretRefused',
      'type',
    ],
    ['when it belongs to no Capsule', made(labelled({})), 'InputSecretRefused', 'not labelled'],
    [
      'when it belongs to another Capsule',
      made(labelled({ 'platform.space/capsule': 'cabin' })),
      'InputSecretRefused',
      'platform.space/capsule=home',
    ],
    ['without its key', made({ data: { other: encoded('horse') } }), 'InputInvalid', '"value"'],
    ['when it is empty', made({ data: { value: '' } }), 'InputInvalid', '1 to 4096'],
    ['with a newline at its end', made({ data: { value: encoded('horse\n') } }), 'InputInvalid', 'newline'],
    ['when it is no text', made({ data: { value: encoded(Buffer.of(0xff)) } }), 'InputInvalid', 'UTF-8'],
    ['when it is too long', made({ data: { value: encoded('h'.repeat(4097)) } }), 'InputInvalid', '4096'],
  ])('%s', (_, secret, reason, says) => {
    const finding = judge(secret);
    expect(finding).toMatchObject({ status: 'False', reason, message: expect.stringContaining(says) });
    expect(JSON.stringify(finding)).not.toContain('horse');
  });
});
