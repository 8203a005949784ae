import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, startBetween } from '../testing/between.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { spawnBroker } from '../testing/process.ts';

/**
 * Aborts that the S3 server has done, and no broker knows. versitygw calls every further completion of such an upload
 * successful if there is any object of its key.
 */

let fixture: Fixture;
let between: Between;
let mine: Assistant;
beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  mine = await newAssistant(fixture.broker);
});
afterEach(() => {
  between.fate = () => 'pass';
});
afterAll(async () => {
  await between?.close();
  await fixture?.close();
});

/** An upload with one part, to the key of an object. */
async function begin(key: string) {
  expect((await mine.put(key, 'kept')).status).toBe(200);
  const { upload_id: id } = (await mine.post('/v1/uploads/data', { key })).json;
  const path = `/v1/uploads/data/${id}`;
  const { etag } = (await mine.call('PUT', `${path}/1`, { body: 'part' })).json;
  return { path, complete: () => mine.post(`${path}/complete`, { parts: [{ number: 1, etag }] }) };
}

/** Loses the answers to aborts. */
function loseAborts(when: Promise<void> = Promise.resolve()): Promise<void> {
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  between.fate = async ({ method, url }) => {
    if (method !== 'DELETE' || url?.includes('uploadId=') !== true) return 'pass';
    resolve();
    await when;
    return 'lost';
  };
  return aborted;
}

const viaProxy = (broker: { readonly dataUrl: string }) => assistant(broker.dataUrl, mine.token);
const environment = () => ({ S3_ENDPOINT: between.endpoint });

async function requireAborted(key: string, { path, complete }: Awaited<ReturnType<typeof begin>>) {
  expect((await complete()).json.error.code).toBe('not_found');
  expect((await mine.get(key)).text).toBe('kept');
  expect((await mine.call('DELETE', path)).status).toBe(200);
  expect((await mine.call('GET', path)).status).toBe(404);
}

test('an upload whose abort had no answer is not completed', async () => {
  const broker = await fixture.replica({ environment: environment() });
  try {
    const upload = await begin('unanswered');
    void loseAborts();
    expect((await viaProxy(broker).call('DELETE', upload.path)).json.error.code).toBe('upstream_failed');
    await requireAborted('unanswered', upload);
  } finally {
    await broker.stop();
  }
});

test('an upload whose broker was killed when the S3 server had aborted it is not completed', async () => {
  const killed = await spawnBroker({ ...fixture.mounts.environment, ...environment() });
  const upload = await begin('killed');
  const aborted = loseAborts(killed.gone);
  const abort = viaProxy(killed)
    .call('DELETE', upload.path)
    .catch(() => 'killed');
  await aborted;
  await killed.kill();
  expect(await abort).toBe('killed');
  await fixture.registry(
    "UPDATE broker.object_upload SET ending_since = ending_since - interval '2 minutes'",
  );
  await requireAborted('killed', upload);
});
