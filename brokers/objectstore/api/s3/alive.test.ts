import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  type S3Client,
  type S3ServiceException,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { portOf } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../../testing/eventually.ts';
import { newAssistant } from '../../testing/assistant.ts';
import type { TestBroker } from '../../testing/broker.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { clientOf } from './testing/clients.ts';

/** An S3 server whose copies and completions are slow, and callers that wait or retry. */

const Bucket = 'data';
const Body = Buffer.alloc(5 * 1024 * 1024, 'x');

let fixture: Fixture;
let server: Server;
let broker: TestBroker;
let s3: S3Client;
/** While it is true, the server's answers are held back. */
let held = false;
/** Called when a request has reached the server. */
let arrived = () => {};
const sockets = new Set<Socket>();

function release(): void {
  held = false;
  for (const socket of sockets) socket.resume();
}

beforeAll(async () => {
  fixture = await openFixture();
  const { hostname, port } = new URL(fixture.s3.endpoint);
  server = createServer((caller) => {
    const upstream = connect(Number(port), hostname);
    sockets.add(upstream);
    caller.pipe(upstream);
    upstream.on('data', (piece) => {
      caller.write(piece);
      if (held) upstream.pause();
    });
    upstream.on('end', () => caller.end());
    for (const socket of [caller, upstream]) socket.on('error', () => undefined);
    caller.on('data', () => {
      if (held) upstream.pause();
      arrived();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  broker = await fixture.replica({
    environment: { S3_ENDPOINT: `http://127.0.0.1:${portOf(server)}` },
    pace: { signOfLifeMs: 100 },
  });
  s3 = await clientOf(broker.dataUrl, await newAssistant(broker));
});

afterAll(async () => {
  release();
  s3?.destroy();
  await broker?.stop();
  for (const socket of sockets) socket.destroy();
  server?.close();
  await fixture?.close();
});

/** An upload with one part, ready to be completed. */
async function upload(Key: string) {
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  const at = { Bucket, Key, UploadId };
  const { ETag } = await s3.send(new UploadPartCommand({ ...at, PartNumber: 1, Body }));
  return { ...at, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } };
}

/** Runs it while the server's answers are held back, and for several keep-alives after the request has come there. */
async function late<T>(act: () => Promise<T>): Promise<T> {
  held = true;
  const request = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const work = act();
  work.catch(() => undefined);
  await request;
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  release();
  return work;
}

it('a long completion is answered as done, or as failed if it fails', async () => {
  const good = await upload('late');
  const done = await late(() => s3.send(new CompleteMultipartUploadCommand(good)));
  expect([done.Key, done.ETag]).toEqual(['late', expect.stringMatching(/^"[0-9a-f]{32}-1"$/)]);
  const bad = {
    ...(await upload('wrong')),
    MultipartUpload: { Parts: [{ PartNumber: 1, ETag: `"${'0'.repeat(32)}"` }] },
  };
  const failed = late(() => s3.send(new CompleteMultipartUploadCommand(bad)));
  await expect(failed).rejects.toMatchObject({ name: 'InvalidPart' });
  const isLogged = () =>
    broker.log.some((line) => line.includes('"code":"invalid_request"') && line.includes('"status":200'));
  await eventually(isLogged, { what: 'its line in the log' });
});

it('a completion that is requested again, during it and afterwards, has the same answer', async () => {
  const good = await upload('again');
  const both = await late(() =>
    Promise.all([1, 2].map(() => s3.send(new CompleteMultipartUploadCommand(good)))),
  );
  expect(both[0]?.ETag).toBe(both[1]?.ETag);
  const after = await s3.send(new CompleteMultipartUploadCommand(good));
  expect(after.ETag).toBe(both[0]?.ETag);
  await s3.send(new PutObjectCommand({ Bucket, Key: 'again', Body: 'another' }));
  const other = s3.send(new CompleteMultipartUploadCommand(good));
  await expect(other).rejects.toMatchObject({ name: 'NoSuchUpload' } satisfies Partial<S3ServiceException>);
});

it('a long copy is answered as done', async () => {
  await s3.send(new PutObjectCommand({ Bucket, Key: 'from', Body }));
  const copy = (Key: string) => new CopyObjectCommand({ Bucket, Key, CopySource: 'data/from' });
  const done = await late(() => s3.send(copy('to')));
  expect(done.CopyObjectResult?.ETag).toMatch(/^"[0-9a-f]{32}"$/);
});
