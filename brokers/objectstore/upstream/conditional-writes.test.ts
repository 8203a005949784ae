import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { brokenCondition } from './conditional-writes.ts';
import { S3Error } from './errors.ts';
import type { S3Client } from './types.ts';

const KEY = 'space-fit/1';
type Put = S3Client['put'];
type Condition = Readonly<Record<string, string>>;

/** A bucket of one object, whose server looks at the conditions that it `knows`, at one time with its write or `early`. */
function bucket(options: { readonly knows?: readonly string[]; readonly early?: readonly string[] } = {}) {
  const { knows = ['if-none-match', 'if-match'], early = [] } = options;
  let etag: string | undefined;
  let writes = 0;
  const refuses = ({ 'if-none-match': none, 'if-match': match }: Condition) => {
    if (none !== undefined && knows.includes('if-none-match') && etag !== undefined) return 412;
    if (match === undefined || !knows.includes('if-match') || match === etag) return undefined;
    return etag === undefined ? 404 : 412;
  };
  const check = (condition: Condition) => {
    const status = refuses(condition);
    if (status !== undefined) throw new S3Error('answered', status, 'PreconditionFailed');
  };
  const put: Put = async (_key, _body, { headers = {} } = {}) => {
    const isEarly = Object.keys(headers).some((name) => early.includes(name));
    if (isEarly) check(headers);
    await turn();
    if (!isEarly) check(headers);
    writes += 1;
    etag = `"${writes}"`;
    return { etag };
  };
  return {
    put,
    delete: async () => {
      etag = undefined;
    },
    isEmpty: () => etag === undefined,
  };
}

const found = (s3: Pick<S3Client, 'put' | 'delete'>) => brokenCondition(s3, KEY, AbortSignal.timeout(10_000));

describe('conditions of writes', () => {
  it('that a server observes are no finding', async () => {
    expect(await found(bucket())).toBeUndefined();
  });

  it.each([
    [['if-match'], 'overwrites objects in spite of If-None-Match'],
    [['if-none-match'], 'overwrites objects in spite of If-Match'],
  ])('of which a server knows only %s', async (knows, sentence) => {
    expect(await found(bucket({ knows }))).toBe(sentence);
  });

  it.each([
    ['if-none-match', 'lets several writes with If-None-Match through that come at one time'],
    ['if-match', 'lets several writes with the same If-Match through that come at one time'],
  ])('that a server checks before it writes: %s', async (name, sentence) => {
    expect(await found(bucket({ early: [name] }))).toBe(sentence);
  });

  it('may be refused as a conflict, also to all that race', async () => {
    const one = bucket();
    let under = 0;
    const put: Put = async (...args) => {
      under += 1;
      await turn();
      const isRace = under > 1;
      await turn();
      under -= 1;
      if (isRace) throw new S3Error('answered', 409, 'ConditionalRequestConflict');
      return one.put(...args);
    };
    expect(await found({ ...one, put })).toBeUndefined();
  });

  it('are not reported as broken if a write only failed, and no write is in progress then', async () => {
    const one = bucket();
    let [writes, under] = [0, 0];
    const put: Put = async (...args) => {
      writes += 1;
      const fails = writes === 5;
      under += 1;
      try {
        if (fails) throw new S3Error('answered', 503, 'SlowDown');
        await turn();
        return await one.put(...args);
      } finally {
        under -= 1;
      }
    };
    await expect(found({ ...one, put })).rejects.toMatchObject({ status: 503 });
    expect(under).toBe(0);
  });
});
