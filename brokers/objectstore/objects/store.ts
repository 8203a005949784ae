import { ServiceError } from '@space/broker-kit';
import { entriesOf } from '../quota/charge.ts';
import type { Doubts } from '../quota/credits.ts';
import { S3Error } from '../upstream/errors.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import { copyWhole, isoOf } from './made-copies.ts';
import { createMultipart, type MultipartOptions } from './multipart.ts';
import { UPSTREAM_METADATA as METADATA, objectHeaders } from './object-headers.ts';
import {
  isMarker,
  logicalKey,
  type ObjectKey,
  type ObjectRef,
  physicalOf as physical,
  physicalKey,
  physicalPrefix,
} from './object-key.ts';
import type { Copied, ObjectCall, ObjectStore } from './types.ts';
import type { Uploads } from './uploads.ts';
import { createWriter, type Source, sendable, type Writer, type WriterOptions } from './writer.ts';

type StoreOptions = WriterOptions & MultipartOptions & { readonly reads?: Pick<S3Client, 'get' | 'head'> };

/** The operations of an Assistant on its two buckets. Every request is limited to the tenant's prefixes. */
export function createObjectStore(client: S3Client, uploads: Uploads, options: StoreOptions): ObjectStore {
  const writer = createWriter(client, options);
  const ends = endingUnder(options);

  return {
    ...createMultipart(client, uploads, writer, options),
    ...reading({ ...client, ...options.reads }),
    put: async (call, ref, body, headers) => {
      checkMarker(ref.key, body.length);
      return writer.write(
        call,
        { bytes: body.length, entries: entriesOf(ref.key) },
        {
          act: () =>
            ends(call, [ref], async () =>
              client.put(physical(call, ref), await sendable(body), { headers, signal: call.signal }),
            ),
          sent: () => body.stream.readableEnded,
        },
      );
    },
    delete: async (call, ref, etag) => {
      const key = physical(call, ref);
      const { signal } = call;
      const condition: Headers = etag === undefined ? {} : { 'if-match': etag };
      // Not every S3 server supports conditional deletes; one that ignores the condition must not delete another
      // object.
      if (etag !== undefined) await client.head(key, { headers: condition, signal });
      // In a delete, versitygw takes the asterisk for a tag.
      const headers = etag === '*' ? {} : condition;
      await ends(call, [ref], () => client.delete(key, { headers, signal })).catch(markerGone);
    },
    deleteMany: async (call, bucket, keys) => {
      const { prefixes } = call.tenant;
      const { signal, inTurn } = call;
      const failed = await ends(
        call,
        keys.map((key) => ({ bucket, key })),
        () =>
          client.deleteMany(
            keys.map((key) => physicalKey(prefixes, bucket, key)),
            { signal, inTurn },
          ),
        { failed: (those) => new Set(those.map(({ key }) => key)) },
      );
      const left = failed.filter(({ code }) => code !== NO_MARKER);
      return new Set(left.map(({ key }) => logicalKey(prefixes, bucket, key) ?? ''));
    },
    copy: copying(client, writer, ends),
  };
}

function reading(
  client: Pick<S3Client, 'get' | 'head' | 'list'>,
): Pick<ObjectStore, 'get' | 'head' | 'list'> {
  return {
    get: (call, ref, conditions, sinkFor) => {
      const { signal, passing } = call;
      return inRange(conditions, (headers) =>
        client.get(physical(call, ref), { headers, part: ref.part, signal, passing }, sinkFor),
      );
    },
    head: (call, ref, conditions) =>
      inRange(conditions, (headers) =>
        client.head(physical(call, ref), { headers, part: ref.part, signal: call.signal }),
      ),
    list: async (call, bucket, { prefix, delimiter, token, after, limit }) => {
      const { prefixes } = call.tenant;
      const page = await client.list(
        {
          prefix: physicalPrefix(prefixes, bucket, prefix),
          delimiter,
          token,
          after: after === undefined ? undefined : physicalPrefix(prefixes, bucket, after),
          limit,
        },
        { signal: call.signal, inTurn: call.inTurn },
      );
      const own = (key: string) => logicalKey(prefixes, bucket, key) ?? [];
      return {
        objects: page.objects.flatMap((object) => {
          const key = logicalKey(prefixes, bucket, object.key);
          return key === undefined ? [] : [{ ...object, key }];
        }),
        prefixes: page.prefixes.flatMap(own),
        next: page.next,
      };
    },
  };
}

/**
 * Reads a range of the object with the tag in `if-range`, and the whole of any other; the server need not support the
 * header.
 */
async function inRange<T>(conditions: Headers, read: (headers: Headers) => Promise<T>): Promise<T> {
  const { 'if-range': tag, ...headers } = conditions;
  if (tag === undefined) return read(headers);
  const { range: _, ...whole } = headers;
  if (headers['if-match'] !== undefined) return read(whole);
  try {
    return await read({ ...headers, 'if-match': tag });
  } catch (error) {
    if (!(error instanceof S3Error) || error.status !== 412) throw error;
    return read(whole);
  }
}

type Ends = <T>(
  call: ObjectCall,
  at: readonly ObjectRef[],
  act: () => Promise<T>,
  doubts?: Doubts<T>,
) => Promise<T>;

/** A marker is charged as the folder that it creates, which may also exist without it. */
function endingUnder({ ending }: StoreOptions): Ends {
  return (call, at, act, doubts) => {
    const objects = at.filter(({ key }) => !isMarker(key));
    if (ending === undefined || objects.length === 0) return act();
    return ending(
      call,
      objects.map((each) => physical(call, each)),
      act,
      doubts,
    );
  };
}

function copying(client: S3Client, writer: Writer, ends: Ends): ObjectStore['copy'] {
  /**
   * Copies a directory's marker, which consists only of headers: servers that store objects as files copy no
   * directories.
   */
  async function copyMarker(
    call: ObjectCall,
    from: ObjectRef,
    to: ObjectRef,
    headers: Headers,
  ): Promise<Copied> {
    const { 'x-amz-metadata-directive': directive, ...given } = headers;
    const { signal } = call;
    const kept = async () =>
      objectHeaders(
        new Map(Object.entries((await client.head(physical(call, from), { signal })).headers)),
        METADATA,
      );
    const about = directive === 'REPLACE' ? given : await kept();
    const key = physical(call, to);
    const empty = Buffer.alloc(0);
    const act = () => client.put(key, empty, { headers: about, signal });
    const { etag } = await writer.write(call, { bytes: 0, entries: entriesOf(to.key) }, { act });
    const { headers: made } = await client.head(key, { signal });
    return { etag, modified: isoOf(made['last-modified']), size: 0 };
  }

  async function copy(
    call: ObjectCall,
    from: ObjectRef,
    to: ObjectRef,
    { headers, source }: { readonly headers: Headers; readonly source: Source },
  ): Promise<Copied> {
    // The server's own refusal would be reported as its failure, which callers repeat.
    if (source.key === physical(call, to) && headers['x-amz-metadata-directive'] !== 'REPLACE')
      throw new ServiceError('invalid_request', 'a copy onto itself that changes nothing');
    checkMarker(to.key, source.size);
    if (source.size === 0 && (isMarker(from.key) || isMarker(to.key)))
      return copyMarker(call, from, to, headers);
    const all = { ...headers, ...source.headers };
    const copied = await writer.write(
      call,
      { bytes: source.size, entries: entriesOf(to.key) },
      // Without the caller's signal, since the server continues and the outcome must be known.
      {
        act: () =>
          ends(call, [to], () => copyWhole(client, { source, to: physical(call, to), headers: all })),
      },
    );
    return { ...copied, size: source.size };
  }

  return (call, from, to, headers) =>
    writer.copy(call, from, (source) => copy(call, from, to, { headers, source }));
}

/** The code of servers that store objects as files, for a directory with objects in it but without a marker. */
const NO_MARKER = 'ErrDirectoryNotEmpty';

/** A missing marker counts as deleted. */
function markerGone(cause: unknown): void {
  if (!(cause instanceof S3Error) || cause.code !== NO_MARKER) throw cause;
}

function checkMarker(key: ObjectKey, bytes: number): void {
  if (bytes > 0 && isMarker(key))
    throw new ServiceError('invalid_request', 'a directory marker has no content');
}
