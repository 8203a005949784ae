import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type ScriptedServer, startScripted } from '../testing/scripted.ts';
import type { S3Client } from './types.ts';

/** A server that begins each answer at once, sends a space now and then, and comes to no end. */

const LONG_MS = 1_000;

let scripted: ScriptedServer;
let s3: S3Client;
let open = 0;
beforeAll(async () => {
  scripted = await startScripted(
    (_, response) => {
      response.writeHead(200).write('<?xml version="1.0"?>');
      const drip = setInterval(() => response.write(' '), LONG_MS / 20);
      open += 1;
      response.once('close', () => {
        clearInterval(drip);
        open -= 1;
      });
    },
    { connections: 4, longMs: LONG_MS },
  );
  ({ s3 } = scripted);
});
afterAll(() => scripted?.close());

test.each<readonly [string, () => Promise<unknown>]>([
  ['a copy', () => s3.copy('from', 'to')],
  ['a copy of a part', () => s3.copyPart('from', { key: 'to', upload: 'id', number: 1 })],
  ['a completion', () => s3.completeUpload('to', 'id', [{ number: 1, etag: '"e"' }])],
])('the answer to %s ends in the time that copies may take', async (_, act) => {
  await expect(act()).rejects.toMatchObject({ kind: 'timeout' });
  await eventually(() => open === 0, { what: 'the connection to end' });
});
