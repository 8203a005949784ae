import { ServiceError } from '@space/broker-kit';
import type { ObjectStore, Tenant } from '../../objects/types.ts';
import { HANDLE_BYTES, type Tenants } from '../../principals/tenants.ts';
import type { Admission } from '../admission.ts';
import type { Cursors, DataKeys } from '../cursors.ts';
import { type Exchange, type Protocol, type Received, receivedHeaders, writeHead } from '../exchange.ts';
import { handleOf, secretsOf } from './access-keys.ts';
import { aclHandlers } from './acls.ts';
import { bucketHandlers } from './buckets.ts';
import { notImplemented, s3AnswerOf, untimelyError } from './errors.ts';
import { checkS3Headers, grantOf } from './headers.ts';
import { readHandlers } from './object-reads.ts';
import { writeHandlers } from './object-writes.ts';
import { type Handlers, withoutDeclaration } from './request.ts';
import { matchS3, type S3Operation } from './routes.ts';
import {
  type Claim,
  isPresigned,
  isTooMuch,
  parseClaim,
  parsePresigned,
  type Untimely,
  type Verified,
  verify,
} from './signature.ts';
import { uploadHandlers } from './uploads.ts';

/** Verified in place of a missing principal, so that every refusal costs the same work. */
const NOBODY = Buffer.alloc(32);

export interface S3Options {
  readonly admission: Admission;
  readonly tenants: Tenants;
  readonly store: ObjectStore;
  readonly cursors: Cursors;
  readonly keys: DataKeys;
  /** The longest validity of a presigned URL, in seconds. */
  readonly presignedSeconds: number;
  readonly now: () => Date;
}

/** S3 for unmodified clients: the same store with S3's names, in path style, with the buckets `data` and `shared`. */
export function createS3Protocol(options: S3Options): Protocol {
  const { admission, tenants, store, cursors, keys, presignedSeconds, now } = options;
  const handlers: Handlers<S3Operation> = {
    ...bucketHandlers(store, cursors),
    ...writeHandlers(store, admission),
    ...readHandlers(store, admission),
    ...aclHandlers(store),
    ...uploadHandlers(store, admission),
  };

  /** Finds the signer, and whether the signature is in its time; every refusal costs the same work. */
  async function authenticate({ request, path, query }: Exchange): Promise<Signer | undefined> {
    const received = headersOrNone(request.rawHeaders);
    const isTooLong = received === undefined || isTooMuch(path, query, received);
    const asked = isTooLong ? undefined : askedOf(received, query);
    const handle = asked === undefined ? undefined : handleOf(asked.claim.accessKeyId);
    const tenant = await tenants.byHandle(handle ?? NOBODY.subarray(0, HANDLE_BYTES));
    if (received === undefined || asked === undefined) return undefined;
    const secrets = secretsOf(keys, tenant?.digest ?? NOBODY).map((secret) => secret.reveal());
    const payload = asked.headers.get('x-amz-content-sha256') ?? '';
    const signed = { method: request.method ?? '', path, query, headers: received, payload };
    const verified = verify(signed, asked.claim, secrets, { now: now(), longest: presignedSeconds });
    if (handle === undefined || tenant === undefined || verified === undefined) return undefined;
    return { ...asked, tenant, verified };
  }

  /** Admits a signer in time. Any other signer is refused like everybody, but learns the reason. */
  async function admit(exchange: Exchange, who: Signer | undefined): Promise<Caller> {
    if (who !== undefined && typeof who.verified !== 'string')
      return { ...who, verified: who.verified, tenant: await admission.admit(exchange, who.tenant) };
    try {
      await admission.admit(exchange, undefined);
    } catch (error) {
      if (who === undefined || !(error instanceof ServiceError) || error.code !== 'forbidden') throw error;
      throw untimelyError(who.verified as Untimely, presignedSeconds);
    }
    throw new Error('admitted without a signature');
  }

  return {
    serve: async (exchange) => {
      const { request } = exchange;
      exchange.operation = 's3';
      const { tenant, headers, verified, query, claim } = await admit(exchange, await authenticate(exchange));
      const match = matchS3(request.method ?? '', exchange.path, query, headers.has('x-amz-copy-source'));
      exchange.operation = `s3.${match.operation}`;
      if (claim.expires !== undefined && !PRESIGNED.has(match.operation))
        throw notImplemented('this operation by a presigned URL');
      // The bucket exists, whatever settings the request asks for.
      if (match.operation !== 'CreateBucket') checkS3Headers(headers);
      const call = admission.callOf(exchange, tenant, grantOf(headers));
      await handlers[match.operation]({ ...match, exchange, call, headers, verified });
    },
    refuse: (exchange, error) => {
      const { request, response, traceId } = exchange;
      const { status, code, sentence } = s3AnswerOf(error);
      const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${sentence}</Message><RequestId>${traceId}</RequestId></Error>`;
      if (exchange.alive) return void response.end(withoutDeclaration(body));
      const about = { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body) };
      writeHead(exchange, status, about).end(request.method === 'HEAD' ? undefined : body);
    },
  };
}

interface Asked {
  readonly claim: Claim;
  readonly headers: Received;
  readonly query: string | undefined;
}

/** The tenant that has the key. */
interface Signer extends Asked {
  readonly tenant: Tenant;
  readonly verified: Verified | Untimely;
}

interface Caller extends Signer {
  readonly verified: Verified;
}

/** Operations that a presigned URL may permit to others: on one object, for a limited time. */
const PRESIGNED: ReadonlySet<S3Operation> = new Set<S3Operation>([
  'GetObject',
  'HeadObject',
  'PutObject',
  'DeleteObject',
  'CreateMultipartUpload',
  'UploadPart',
  'ListParts',
  'CompleteMultipartUpload',
  'AbortMultipartUpload',
]);

/** The claimed signature, in a header or in the query, never in both. */
function askedOf(received: Received, query: string | undefined): Asked | undefined {
  if (isPresigned(query)) return parsePresigned(received, query);
  const claim = parseClaim(received);
  return claim === undefined ? undefined : { claim, headers: received, query };
}

/** Undefined if two readers could read the headers differently. */
function headersOrNone(rawHeaders: readonly string[]): Received | undefined {
  try {
    return receivedHeaders(rawHeaders);
  } catch {
    return undefined;
  }
}
