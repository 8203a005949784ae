import type { Page, S3Client } from './client.ts';
import { inHalves, listing, nextOf } from './documents.ts';
import type { Transport } from './transport.ts';
import { childrenOf, textOf, type XmlNode } from './xml.ts';

/** Lists of objects, a page at a time. */
export function createLists(transport: Transport): Pick<S3Client, 'list'> {
  return {
    list: (query, { signal, inTurn } = {}) => {
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
    },
  };
}

function pageOf(answer: XmlNode): Page {
  const objects = childrenOf(answer, 'Contents').map((node) => ({
    key: textOf(node, 'Key') ?? '',
    size: Number(textOf(node, 'Size') ?? 0),
    etag: textOf(node, 'ETag') ?? '',
    modified: textOf(node, 'LastModified') ?? '',
  }));
  const prefixes = childrenOf(answer, 'CommonPrefixes').map((node) => textOf(node, 'Prefix') ?? '');
  return { objects, prefixes, next: nextOf(answer, 'NextContinuationToken') };
}
