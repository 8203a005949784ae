import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ScriptedServer, startScripted } from '../testing/scripted.ts';

/** versitygw says so of an object that another request deletes at the same time; S3 does not. */
const NO_SUCH_KEY = '<Code>NoSuchKey</Code>';

let scripted: ScriptedServer;
beforeAll(async () => {
  scripted = await startScripted(({ method }, response) => {
    if (method === 'DELETE') response.writeHead(404).end(`<Error>${NO_SUCH_KEY}</Error>`);
    else
      response.end(
        `<DeleteResult><Error><Key>a</Key>${NO_SUCH_KEY}</Error><Error><Key>b</Key><Code>AccessDenied</Code></Error></DeleteResult>`,
      );
  });
});
afterAll(() => scripted?.close());

test('an object that is absent when it is deleted is deleted', async () => {
  await expect(scripted.s3.delete('a')).resolves.toBeUndefined();
  expect(await scripted.s3.deleteMany(['a', 'b'])).toEqual([{ key: 'b', code: 'AccessDenied' }]);
});

test('an object that must have an entity tag is not', async () => {
  await expect(scripted.s3.delete('a', { headers: { 'if-match': '"tag"' } })).rejects.toMatchObject({
    code: 'NoSuchKey',
  });
});
