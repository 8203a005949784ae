import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { CONFIG_MAP, DEPLOYMENT } from '../kinds.ts';
import { type Desired, Writer } from './apply.ts';
import { type KubeObject, pathOf } from './kube-object.ts';

/** What is applied is JSON, and the API server reads it as YAML. */

const NAMESPACE = 'default';
let server: ApiServer;
let writer: Writer;
let writes: string[];

beforeAll(async () => {
  server = await startApiServer();
});
afterAll(() => server?.stop());
beforeEach(() => {
  writes = [];
  writer = new Writer({
    client: server.client,
    fieldManager: 'test',
    digestAnnotation: 'platform.space/applied',
    beforeWrite: (verb) => writes.push(verb),
  });
});

type Data = Readonly<Record<string, string>>;
const wishOf = (data: Data): Desired => ({ metadata: { name: 'texts', namespace: NAMESPACE }, data });
const named = (texts: readonly string[]): Data =>
  Object.fromEntries(texts.map((text, index) => [`t${index}`, text]));
const read = () =>
  server.client.call<KubeObject & { data?: Data }>({
    method: 'GET',
    path: pathOf(CONFIG_MAP, NAMESPACE, 'texts'),
  });

/** Applies the texts, and once more over what that has left: nothing is written then. */
async function applied(texts: readonly string[]): Promise<readonly (string | undefined)[]> {
  const data = named(texts);
  writes.length = 0;
  await writer.apply(CONFIG_MAP, wishOf(data), undefined);
  const live = await read();
  // An operator that has just started has settled nothing.
  const fresh = new Writer({
    client: server.client,
    fieldManager: 'test',
    digestAnnotation: 'platform.space/applied',
    beforeWrite: (verb) => writes.push(verb),
  });
  expect(await fresh.apply(CONFIG_MAP, wishOf(data), live)).toBe('unchanged');
  expect(writes).toEqual(['patch']);
  return Object.keys(data).map((key) => live.data?.[key]);
}

describe('what is applied is what is read, and applying it again changes nothing', () => {
  test('each UTF-16 code unit between others, and each special one alone', async () => {
    const units = Array.from({ length: 0x10000 }, (_, unit) => String.fromCharCode(unit));
    const rows = Array.from({ length: 256 }, (_, row) => units.slice(row * 256, (row + 1) * 256));
    const alone = [...units.slice(0, 256), ...'\u2028\u2029\ud800\udfff\ufeff\ufffe\uffff'.split('')];
    const texts = [...rows.map((row) => row.join('a')), ...alone];
    expect(await applied(texts)).toEqual(texts.map((text) => text.toWellFormed()));
  });

  test('any text', async () => {
    const unit = fc.oneof(
      fc.constantFrom(
        '\u0000',
        '\n',
        '\r',
        '\u007f',
        '\u0085',
        '\u2028',
        '\ufeff',
        '\uffff',
        '\\',
        '"',
        ' ',
        ': ',
        '#',
      ),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
      fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
      fc.constantFrom('\\ud800', '\\u0085', '\\\ud83d'),
    );
    const texts = fc.array(fc.string({ unit, maxLength: 40 }), { minLength: 1, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(texts, async (given) => {
        expect(await applied(given)).toEqual(given.map((text) => text.toWellFormed()));
      }),
      { numRuns: 30 },
    );
  });

  test('an environment, which is written once', async () => {
    const env = [{ name: 'A', value: 'a\u0085b\u007fc\u2028 \ud83d\ude00' }];
    const labels = { app: 'env' };
    const wish = {
      metadata: { name: 'env', namespace: NAMESPACE },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'none', env }] } },
      },
    };
    await writer.apply(DEPLOYMENT, wish, undefined);
    expect(writes).toEqual(['patch']);
    const path = pathOf(DEPLOYMENT, NAMESPACE, 'env');
    expect(await server.client.call({ method: 'GET', path })).toMatchObject({
      metadata: { generation: 1 },
      spec: { template: { spec: { containers: [{ env }] } } },
    });
  });
});
