import { describe, expect, it } from 'vitest';
import { digestOf, newToken } from '../tokens.ts';
import { capsuleAuthority, observerAuthority, provisionerAuthority } from './authorities.ts';

describe.each([
  ['provisioner', provisionerAuthority],
  ['observer', observerAuthority],
] as const)('a %s', (authority, make) => {
  const [first, second] = [newToken('prv'), newToken('prv')];

  it('is who has one of the tokens that are known at that moment, and nobody else', async () => {
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

  it('is whose token the registry knows, and nobody else', async () => {
    const authenticate = capsuleAuthority(find);
    expect(await authenticate(token)).toEqual({
      ...{ authority: 'capsule', capsule: 'home', digest: digestOf(token) },
    });
    expect(await authenticate(newToken('dbp'))).toBeUndefined();
  });

  it('is nobody without a token, though the registry is asked as for any other', async () => {
    asked.length = 0;
    expect(await capsuleAuthority(find)(undefined)).toBeUndefined();
    expect(asked).toHaveLength(1);
    // Not even where the registry knows whatever is asked for in place of a token.
    expect(await capsuleAuthority(async () => ({ capsule: 'home' }))(undefined)).toBeUndefined();
  });

  it('is not told apart without the registry; who has no token is refused all the same', async () => {
    const authenticate = capsuleAuthority(() => Promise.reject(new Error('down')));
    await expect(authenticate(token)).rejects.toThrow('down');
    expect(await authenticate(undefined)).toBeUndefined();
  });
});
