import { describe, expect, it } from 'vitest';
import { digestOf, newToken } from '../tokens.ts';
import { capsuleAuthority, observerAuthority, provisionerAuthority } from './authorities.ts';

describe.each([
  ['provisioner', provisionerAuthority],
  ['observer', observerAuthority],
] as const)('a %s', (authority, make) => {
  const [first, second] = [newToken('prv'), newToken('prv')];

  it('is a caller with one of the tokens that are valid at that moment, and nobody else', async () => {
    let known = [digestOf(first), digestOf(second)];
    const authenticate = make(() => known);
    for (const token of [first, second]) expect(await authenticate(token)).toEqual({ authority });
    expect(await authenticate(newToken('prv'))).toBeUndefined();
    expect(await authenticate(undefined)).toBeUndefined();
    known = [digestOf(second)];
    expect(await authenticate(first)).toBeUndefined();
    known = [];
    expect(await authenticate(second)).toBeUndefined();
  });
});

describe('a Capsule', () => {
  const token = newToken('dbp');
  const asked: Buffer[] = [];
  const find = async (digest: Buffer) => {
    asked.push(digest);
    return digest.equals(digestOf(token)) ? { capsule: 'home' } : undefined;
  };

  it('is recognised by a token that the registry knows, and by nothing else', async () => {
    const authenticate = capsuleAuthority(find);
    expect(await authenticate(token)).toEqual({
      ...{ authority: 'capsule', capsule: 'home', digest: digestOf(token) },
    });
    expect(await authenticate(newToken('dbp'))).toBeUndefined();
  });

  it('is not recognised without a token, although the registry is queried as for any other', async () => {
    asked.length = 0;
    expect(await capsuleAuthority(find)(undefined)).toBeUndefined();
    expect(asked).toHaveLength(1);
    // This holds even if the registry finds the placeholder that is queried without a token.
    expect(await capsuleAuthority(async () => ({ capsule: 'home' }))(undefined)).toBeUndefined();
  });

  it('cannot be recognised without the registry, and a caller without a token is still refused', async () => {
    const authenticate = capsuleAuthority(() => Promise.reject(new Error('down')));
    await expect(authenticate(token)).rejects.toThrow('down');
    expect(await authenticate(undefined)).toBeUndefined();
  });
});
