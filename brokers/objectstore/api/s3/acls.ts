import type { ObjectStore } from '../../objects/types.ts';
import { writeHead } from '../exchange.ts';
import { notImplemented } from './errors.ts';
import { type Admitted, answer, type Handlers, xml } from './request.ts';
import { bucketOf, keyOf } from './routes.ts';

type Name = 'GetBucketAcl' | 'PutBucketAcl' | 'GetObjectAcl' | 'PutObjectAcl' | 'GetObjectTagging';

const OWNER = '<Owner><ID>space</ID><DisplayName>space</DisplayName></Owner>';

/** Who may read what is not said by lists here: everything is private, has one owner, and no tags. Clients ask. */
export function aclHandlers(store: ObjectStore): Handlers<Name> {
  const exists = async (one: Admitted) =>
    void (await store.head(one.call, { bucket: bucketOf(one), key: keyOf(one) }, {}));
  return {
    GetBucketAcl: async (one) => xml(one, PRIVATE),
    PutBucketAcl: async (one) => keepPrivate(one),
    GetObjectAcl: async (one) => {
      await exists(one);
      xml(one, PRIVATE);
    },
    PutObjectAcl: async (one) => {
      checkPrivate(one);
      await exists(one);
      keepPrivate(one);
    },
    GetObjectTagging: async (one) => {
      await exists(one);
      answer(one, 'Tagging', [['TagSet', []]]);
    },
  };
}

/** As text, for the attribute that says what kind of grantee it is: some clients read nothing without it. */
const PRIVATE = `<?xml version="1.0" encoding="UTF-8"?>
<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${OWNER}<AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>space</ID><DisplayName>space</DisplayName></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>`;

function keepPrivate(one: Admitted): void {
  checkPrivate(one);
  writeHead(one.exchange, 200, { 'content-length': 0 }).end();
}

/** A list in the body may say anything; the header says `private` by now, or nothing. */
function checkPrivate({ headers, exchange: { request } }: Admitted): void {
  const empty =
    request.headers['transfer-encoding'] === undefined && /^0?$/.test(headers.get('content-length') ?? '');
  if (!empty || !headers.has('x-amz-acl')) throw notImplemented('an access control list other than private');
}
