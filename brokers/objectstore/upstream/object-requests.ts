import { copied, fields, inHalves, listing, nextOf, sizeOf, stored, withSource } from './documents.ts';
import { NO_SUCH_KEY, S3Error } from './errors.ts';
import { isLong, keyTooLong } from './folders.ts';
import type { Head, Patience } from './relay.ts';
import type { Ask, Transport } from './transport.ts';
import type { Page, S3Client } from './types.ts';
import { childrenOf, textOf, type XmlNode } from './xml.ts';

/** Requests for whole objects, and for lists of them by page. */
export function createObjectRequests(
  transport: Transport,
  source: (key: string) => string,
  patience: Patience,
): Pick<S3Client, 'put' | 'get' | 'read' | 'head' | 'delete' | 'copy' | 'list'> {
  const list: S3Client['list'] = (query, { signal, inTurn } = {}) => {
    const { prefix, delimiter, token, after } = query;
    return inHalves(query.limit, async (limit) => {
      const asked = {
        'list-type': '2',
        'max-keys': String(limit),
        prefix,
        ...(delimiter === undefined ? {} : { delimiter }),
        ...(token === undefined ? {} : { 'continuation-token': token }),
        ...(after === undefined ? {} : { 'start-after': after }),
      };
      const shape = { root: 'ListBucketResult', items: ['Contents', 'CommonPrefixes'], most: limit };
      return pageOf(await listing(transport, { method: 'GET', query: asked, signal }, shape, inTurn));
    });
  };

  const remove: S3Client['delete'] = async (key, { headers = {}, signal } = {}) => {
    await transport.small({ method: 'DELETE', key, headers, signal }).catch((error: unknown) => {
      const isAbsent = error instanceof S3Error && error.code === NO_SUCH_KEY;
      if (!isAbsent || headers['if-match'] !== undefined) throw error;
    });
  };

  const head: S3Client['head'] = async (key, { headers = {}, part, signal } = {}) => {
    try {
      return await transport.small({ method: 'HEAD', key, ...partOf(part), headers, signal });
    } catch (error) {
      // An answer to HEAD has no body with the reason.
      if (error instanceof S3Error && error.status === 400 && isLong(key)) throw keyTooLong(error);
      throw error;
    }
  };

  return {
    ...{ list, head, delete: remove },
    put: async (key, body, { headers = {}, signal } = {}) => {
      const answer = await transport.small({ method: 'PUT', key, headers, stores: true, body, signal });
      return { etag: stored(answer.headers['etag']) };
    },
    get: (key, { headers = {}, part, signal, passing }, sinkFor) =>
      transport.stream({ method: 'GET', key, ...partOf(part), headers, signal, passing }, (head) => {
        checkDownload(head, headers['range']);
        return sinkFor(head);
      }),
    read: (key, limit, { headers = {}, signal } = {}) =>
      transport.small({ method: 'GET', key, headers, signal }, limit),
    copy: async (from, to, { headers = {}, signal } = {}) => {
      const all = withSource(headers, source(from));
      const ask = { method: 'PUT', key: to, headers: all, signal, patience } as const;
      return copied(await fields(transport, ask, 'CopyObjectResult'));
    },
  };
}

function partOf(part: number | undefined): Pick<Ask, 'query'> {
  return part === undefined ? {} : { query: { partNumber: String(part) } };
}

/**
 * Checks that the answer is the object or the requested range, and has an unmistakable end: a body that ends with its
 * connection may be incomplete, and a whole object must not pass for a range.
 */
function checkDownload({ status, headers }: Head, range: string | undefined): void {
  if (status === 304) return;
  if (headers['content-length'] === undefined && headers['transfer-encoding'] !== 'chunked')
    throw new S3Error('answered', 200, 'NoLength');
  if (range !== undefined && status !== 206 && isSatisfied(range) && headers['content-length'] !== '0')
    throw new S3Error('answered', 200, 'RangeIgnored');
}

/** Whether a server must honour the range; one whose end is before its start has no meaning. */
function isSatisfied(range: string): boolean {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
  return first === '' || last === '' || Number(last) >= Number(first);
}

function pageOf(answer: XmlNode): Page {
  const objects = childrenOf(answer, 'Contents').map((node) => ({
    key: textOf(node, 'Key') ?? '',
    size: sizeOf(node),
    etag: textOf(node, 'ETag') ?? '',
    modified: textOf(node, 'LastModified') ?? '',
  }));
  const prefixes = childrenOf(answer, 'CommonPrefixes').map((node) => textOf(node, 'Prefix') ?? '');
  return { objects, prefixes, next: nextOf(answer, 'NextContinuationToken') };
}
