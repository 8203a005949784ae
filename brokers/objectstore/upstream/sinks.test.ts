import { once } from 'node:events';
import { expect, it } from 'vitest';
import { DocumentSink } from './sinks.ts';
import { childrenOf, textOf } from './xml.ts';

it('a document in pieces of one byte takes few turns, and each of a few KiB at most', async () => {
  const keys = Array.from({ length: 500 }, (_, i) => `key-${i}-ä`);
  const listed = keys.map((key) => `<Contents><Key>${key}</Key></Contents>`).join('');
  const bytes = Buffer.from(`<ListBucketResult>${listed}</ListBucketResult>`);
  let turns = 0;
  const sink = new DocumentSink(
    { root: 'ListBucketResult', items: ['Contents'], most: 500 },
    bytes.length,
    async (act) => {
      turns += 1;
      await new Promise((resolve) => setImmediate(resolve));
      return act();
    },
  );
  for (let at = 0; at < bytes.length; at += 1)
    if (!sink.write(bytes.subarray(at, at + 1))) await once(sink, 'drain');
  sink.end();
  await once(sink, 'finish');
  expect(childrenOf(sink.document(), 'Contents').map((node) => textOf(node, 'Key'))).toEqual(keys);
  expect(turns).toBeGreaterThanOrEqual(bytes.length / 4_096);
  expect(turns).toBeLessThan(20);
});

it('a document in pieces of one byte is read to its limit', async () => {
  const sink = new DocumentSink({ root: 'Root', items: [], most: 0 }, 100, async (act) => act());
  const failed = once(sink, 'error');
  for (let at = 0; at < 101; at += 1) sink.write(Buffer.from(' '));
  expect((await failed)[0]).toMatchObject({ code: 'AnswerTooLarge' });
});
