import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ScriptedServer, startScripted } from '../testing/scripted.ts';
import { atOnce } from '../upstream/sinks.ts';
import { parseKey, prefixesOf } from './object-key.ts';
import { createObjectStore } from './store.ts';
import type { ObjectCall, ObjectStore } from './types.ts';

/** Copies of a directory's marker in a bucket whose server says when an object was changed, or does not. */

const CAPSULE = `c/${'0'.repeat(40)}/`;
const prefixes = prefixesOf(`${CAPSULE}a/${'1'.repeat(40)}/`, `${CAPSULE}s/`);
const RESERVATION = {
  settle: () => undefined,
  release: () => undefined,
  doubt: () => undefined,
  move: async () => undefined,
};

let scripted: ScriptedServer;
let store: ObjectStore;
let modified: string | undefined;
beforeAll(async () => {
  scripted = await startScripted((_, response) => {
    const about = modified === undefined ? {} : { 'last-modified': modified };
    response.writeHead(200, { etag: '"tag"', 'content-length': 0, ...about }).end();
  });
  const quota = { reserve: async () => RESERVATION };
  store = createObjectStore(scripted.s3, {} as never, { entryBytes: 0, quota });
});
afterAll(() => scripted?.close());

test.each([
  ['Sat, 28 Nov 2026 15:00:00 GMT', '2026-11-28T15:00:00.000Z'],
  [undefined, '1970-01-01T00:00:00.000Z'],
  ['yesterday', '1970-01-01T00:00:00.000Z'],
  ['', '1970-01-01T00:00:00.000Z'],
])('the copy of a directory’s marker that was changed at %j was made at %s', async (told, expected) => {
  modified = told;
  const call: ObjectCall = {
    tenant: {
      ...{ capsule: 'a', app: 'b', capsulePrefix: CAPSULE },
      prefixes,
      quotaBytes: 1,
      digest: {} as never,
    },
    signal: new AbortController().signal,
    inTurn: atOnce,
    passing: { isShared: () => false, inTurn: atOnce },
  };
  const ref = (key: string) => ({ bucket: 'data' as const, key: parseKey(key)! });
  const copied = await store.copy(call, ref('from/'), ref('to/'), {});
  expect(copied).toEqual({ etag: '"tag"', modified: expected, size: 0 });
});
