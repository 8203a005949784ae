import { createHash } from 'node:crypto';
import { listing } from './documents.ts';
import { NO_SUCH_KEY } from './errors.ts';
import { atOnce, documentInTurns, type InTurn } from './sinks.ts';
import type { Transport } from './transport.ts';
import type { S3Client } from './types.ts';
import { childrenOf, textOf } from './xml.ts';

interface Batches {
  readonly keys: number;
  readonly bytes: number;
}

/** The most keys and bytes of one request, since the server keeps its document in memory. */
const BATCH: Batches = { keys: 100, bytes: 64 * 1024 };

/** Deletes many objects in batches. After a failure the whole call is repeated. */
export function createBulkDeletion(transport: Transport): Pick<S3Client, 'deleteMany'> {
  return {
    deleteMany: async (keys, { signal, inTurn = atOnce } = {}) => {
      const failed: { key: string; code: string }[] = [];
      for (const batch of batchesOf(keys, BATCH)) {
        const { body, headers } = await messageOf(batch, inTurn);
        const answer = await listing(
          transport,
          { method: 'POST', query: { delete: '' }, headers, body, signal },
          // The request asks for failures only, but some servers also list what they have deleted.
          { root: 'DeleteResult', items: ['Error', 'Deleted'], most: batch.length },
          inTurn,
        );
        for (const node of childrenOf(answer, 'Error')) {
          const code = textOf(node, 'Code') ?? 'Unknown';
          if (code !== NO_SUCH_KEY) failed.push({ key: textOf(node, 'Key') ?? '', code });
        }
      }
      return failed;
    },
  };
}

async function messageOf(keys: readonly string[], inTurn: InTurn) {
  const object = (key: string) => ['Object', [['Key', key]]] as const;
  const first = [['Quiet', true]] as const;
  const body = Buffer.from(await documentInTurns('Delete', keys, object, { inTurn, first }));
  const md5 = createHash('md5').update(body).digest('base64');
  return { body, headers: { 'content-type': 'application/xml', 'content-md5': md5 } };
}

function* batchesOf(keys: readonly string[], most: Batches): Generator<readonly string[]> {
  let batch: string[] = [];
  let bytes = 0;
  for (const key of keys) {
    const length = Buffer.byteLength(key);
    if (batch.length > 0 && (batch.length === most.keys || bytes + length > most.bytes)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(key);
    bytes += length;
  }
  if (batch.length > 0) yield batch;
}
