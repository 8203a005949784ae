import { describe, expect, test } from 'vitest';
import type { SecretObject } from '../../kinds.ts';
import { judgeInput } from './entered.ts';

const encoded = (text: string | Buffer) => Buffer.from(text).toString('base64');
const made = (changes: Partial<SecretObject> = {}): SecretObject => ({
  metadata: { name: 'bank', uid: 'u', resourceVersion: '7', labels: { 'platform.space/capsule': 'home' } },
  type: 'platform.space/stored-input',
  data: { value: encoded('correct horse') },
  ...changes,
});
const judge = (secret: SecretObject | undefined) =>
  judgeInput({ key: 'bank', capsule: 'home', ref: { name: 'bank', key: 'value' }, secret });

test('a Secret that was made to be this Capsule’s stored input is one', () => {
  const found = judge(made());
  expect(found).toMatchObject({ secret: 'bank', uid: 'u', resourceVersion: '7' });
  expect('value' in found && found.value.reveal()).toBe('correct horse');
  expect(JSON.stringify(found)).not.toContain('horse');
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
    ['when it is empty', made({ data: { value: '' } }), 'InputInvalid', '1 to 8192'],
    ['with a newline at its end', made({ data: { value: encoded('horse\n') } }), 'InputInvalid', 'newline'],
    ['when it is no text', made({ data: { value: encoded(Buffer.of(0xff)) } }), 'InputInvalid', 'UTF-8'],
    ['when it is too long', made({ data: { value: encoded('h'.repeat(8193)) } }), 'InputInvalid', '8192'],
  ])('%s', (_, secret, reason, says) => {
    const finding = judge(secret);
    expect(finding).toMatchObject({ status: 'False', reason, message: expect.stringContaining(says) });
    expect(JSON.stringify(finding)).not.toContain('horse');
  });
});
