import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type ScriptedServer, startScripted } from '../testing/scripted.ts';
import { clearingDirectories } from './folders.ts';
import type { S3Client } from './types.ts';

/** A server that says of each key that it is a directory, in which there is always one more. */

let scripted: ScriptedServer;
let asked: string[] = [];
beforeAll(async () => {
  scripted = await startScripted((request, response) => {
    asked.push(request.method ?? '');
    const [status, document] = answerTo(request);
    response.writeHead(status, { 'content-length': document.length }).end(document);
  });
});
beforeEach(() => {
  asked = [];
});
afterAll(() => scripted?.close());

function answerTo({ method, url }: IncomingMessage): readonly [number, string] {
  if (method === 'PUT') return [409, '<Error><Code>ExistingObjectIsDirectory</Code></Error>'];
  const { searchParams } = new URL(url ?? '', 'http://here');
  const below = searchParams.has('delimiter')
    ? `<CommonPrefixes><Prefix>${searchParams.get('prefix')}a/</Prefix></CommonPrefixes>`
    : '';
  return [200, `<ListBucketResult>${below}</ListBucketResult>`];
}

const writes: readonly [string, (client: S3Client) => Promise<unknown>][] = [
  ['put', (client) => client.put('key', Buffer.from('x'))],
  ['copy', (client) => client.copy('from', 'key')],
];

test.each(writes)(
  'a %s to a server of a Capsule’s own asks it once, whatever it says of directories',
  async (_, act) => {
    await expect(act(scripted.s3)).rejects.toMatchObject({ code: 'ExistingObjectIsDirectory' });
    expect(asked).toEqual(['PUT']);
  },
);

test.each(writes)(
  'a %s to the Space’s server removes an empty directory that is in the way',
  async (_, act) => {
    await expect(act(clearingDirectories(scripted.s3))).rejects.toMatchObject({ code: 'DirectoryWent' });
    expect(asked.at(-1)).toBe('DELETE');
  },
);
