import type { ObjectStore } from '../../objects/types.ts';
import { writeHead } from '../exchange.ts';
import { notImplemented } from './errors.ts';
import { type Admitted, answer, type Handlers, xml } from './request.ts';
import { bucketOf, keyOf } from './routes.ts';

type Name = 'GetBucketAcl' | 'PutBucketAcl' | 'GetObjectAcl' | 'PutObjectAcl' | 'GetObjectTagging';

const OWNER = '<Owner><ID>space</ID><DisplayName>space</DisplayName></Owner>';

/**
 * Answers ACL requests, which clients send although ACLs are not supported: everything is private, has one owner, and
 * no tags.
 */
export function aclHandlers(store: ObjectStore): Handlers<Name> {
  const exists = async (admitted: Admitted) =>
    void (await store.head(admitted.call, { bucket: bucketOf(admitted), key: keyOf(admitted) }, {}));
  return {
    GetBucketAcl: async (admitted) => xml(admitted, PRIVATE),
    PutBucketAcl: async (admitted) => keepPrivate(admitted),
    GetObjectAcl: async (admitted) => {
      await exists(admitted);
      xml(admitted, PRIVATE);
    },
    PutObjectAcl: async (admitted) => {
      checkPrivate(admitted);
      await exists(admitted);
      keepPrivate(admitted);
    },
    GetObjectTagging: async (admitted) => {
      await exists(admitted);
      answer(admitted, 'Tagging', [['TagSet', []]]);
    },
  };
}

/** The element is written as text, since some clients require the attribute for the grantee's type. */
const PRIVATE = `<?xml version="1.0" encoding="UTF-8"?>
<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${OWNER}<AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>space</ID><DisplayName>space</DisplayName></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>`;

function keepPrivate(admitted: Admitted): void {
  checkPrivate(admitted);
  writeHead(admitted.exchange, 200, { 'content-length': 0 }).end();
}

/**
 * Throws unless the request has the header, of which only `private` was admitted, and no body, which could contain any
 * list.
 */
function checkPrivate({ headers, exchange: { request } }: Admitted): void {
  const empty =
    request.headers['transfer-encoding'] === undefined && /^0?$/.test(headers.get('content-length') ?? '');
  if (!empty || !headers.has('x-amz-acl')) throw notImplemented('an access control list other than private');
}
