import { type Exchange, type Protocol, writeHead } from '../data/exchange.ts';
import { type Received, receivedHeaders } from '../data/headers.ts';
import type { Gate } from '../data/plane.ts';
import type { DataKeys, Seal } from '../data/seal.ts';
import type { ObjectStore } from '../data/store.ts';
import type { Tenants } from '../data/tenants.ts';
import type { Handlers } from './admitted.ts';
import { bucketHandlers } from './buckets.ts';
import { s3AnswerOf } from './errors.ts';
import { checkS3Headers, grantOf } from './headers.ts';
import { handleOf, secretsOf } from './keys.ts';
import { objectHandlers } from './objects.ts';
import { matchS3, type S3Operation } from './routes.ts';
import { parseClaim, verify } from './signature.ts';
import { uploadHandlers } from './uploads.ts';

/** Verified in place of a principal that is not there, so that a refusal costs the same work as any other. */
const NOBODY = Buffer.alloc(32);

export interface FrontOptions {
  readonly gate: Gate;
  readonly tenants: Tenants;
  readonly store: ObjectStore;
  readonly cursors: Seal;
  readonly keys: DataKeys;
  readonly now: () => Date;
}

/** S3 for unmodified clients: the same store under S3's names, path-style, with the buckets `data` and `shared`. */
export function createS3Protocol({ gate, tenants, store, cursors, keys, now }: FrontOptions): Protocol {
  const handlers: Handlers<S3Operation> = {
    ...bucketHandlers(store, cursors),
    ...objectHandlers(store, gate),
    ...uploadHandlers(store, gate),
  };

  /** Who signed the request; the same work for everybody who is turned away. */
  async function authenticate({ request, path, query }: Exchange) {
    const headers = headersOrNone(request.rawHeaders);
    const claim = parseClaim(headers?.get('authorization'));
    const handle = claim === undefined ? undefined : handleOf(claim.accessKeyId);
    const tenant = await tenants.byHandle(handle ?? NOBODY.subarray(0, 16));
    if (headers === undefined || claim === undefined) return undefined;
    const secrets = secretsOf(keys, tenant?.digest ?? NOBODY).map((secret) => secret.reveal());
    const signed = { method: request.method ?? '', path, query, headers };
    const verified = verify(signed, claim, secrets, now());
    if (handle === undefined || tenant === undefined || verified === undefined) return undefined;
    return { tenant, verified, headers };
  }

  return {
    serve: async (exchange) => {
      const { request } = exchange;
      exchange.operation = 's3';
      const who = await authenticate(exchange);
      const tenant = gate.admit(exchange, who?.tenant);
      if (who === undefined) throw new Error('admitted without a signature');
      const { headers, verified } = who;
      const match = matchS3(
        request.method ?? '',
        exchange.path,
        exchange.query,
        headers.has('x-amz-copy-source'),
      );
      exchange.operation = `s3.${match.operation}`;
      // The bucket is there, whatever it was to be made like.
      if (match.operation !== 'CreateBucket') checkS3Headers(headers);
      const call = { tenant, signal: exchange.abort.signal, grant: grantOf(headers) };
      await handlers[match.operation]({ ...match, exchange, call, headers, verified });
    },
    refuse: (exchange, error) => {
      const { request, traceId } = exchange;
      const { status, code } = s3AnswerOf(error);
      const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${code}</Message><RequestId>${traceId}</RequestId></Error>`;
      const about = { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body) };
      writeHead(exchange, status, about).end(request.method === 'HEAD' ? undefined : body);
    },
  };
}

/** Undefined for headers that two readers might read differently. */
function headersOrNone(rawHeaders: readonly string[]): Received | undefined {
  try {
    return receivedHeaders(rawHeaders);
  } catch {
    return undefined;
  }
}
