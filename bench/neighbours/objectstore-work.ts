import { createHash } from 'node:crypto';
import { presign } from '../../brokers/objectstore/api/s3/testing/signed.ts';
import {
  ALGORITHM,
  amzDate,
  EMPTY_SHA256,
  hmac,
  scopeText,
  signatureOf,
  signingKey,
} from '../../brokers/objectstore/upstream/sigv4.ts';
import { type Act, headOf, RANDOM_TEXT } from './acts.ts';
import { HOSTILE, type ServiceUnderTest, STRANGER } from './service-under-test.ts';

const KIB = 1_024;
const MIB = 1_024 * KIB;
/** The smallest chunk size of a body that is signed in chunks. */
const CHUNK = 8 * KIB;
const REGION = 'us-east-1';
/** The longest keys have 448 folders with one character each. */
const FOLDERS = 'a/'.repeat(400);

interface Keys {
  readonly AccessKeyId: string;
  readonly SecretAccessKey: string;
}

interface Caller {
  /** The workload principal of the hostile tenant's Assistant, and the principal of its Capsule. */
  readonly token: string;
  readonly capsule: string;
  readonly principal: string;
  readonly controlPort: number;
  keys(): Promise<Keys>;
}

/** Requests that cause much work behind the broker, or make it store or sign something new. */
export function expensiveActs(port: number, hostile: Caller): ServiceUnderTest['hostile'] {
  const by = { kind: 'requests', port, from: HOSTILE } as const;
  const headers = (length: number) => ({
    host: 'objects',
    authorization: `Bearer ${hostile.token}`,
    'content-length': length,
    connection: 'close',
  });
  const post = (path: string, body: object, perSecond: number): Act => {
    const text = JSON.stringify(body);
    const head = headOf(`POST ${path}`, { ...headers(text.length), 'content-type': 'application/json' });
    return { ...by, head, body: [text, 1], perSecond };
  };
  const put = (key: string, perSecond: number): Act => ({
    ...by,
    head: headOf(`PUT /v1/objects/data/${key}`, headers(0)),
    perSecond,
  });
  const base = `http://127.0.0.1:${port}`;
  const presigned = async (key: string) => {
    const url = presign(base, await hostile.keys(), { method: 'GET', path: `/data/${key}` });
    return headOf(`GET ${url.slice(base.length)}`, { host: `127.0.0.1:${port}`, connection: 'close' });
  };
  const thousand = Array.from({ length: 1_000 }, (_, i) => `many/${i}`);
  return {
    'presigned downloads': async () => [{ ...by, head: await presigned('large'), perSecond: 5 }],
    'presigned URLs with a wrong signature': async () => [
      { ...by, from: STRANGER, head: withAnotherEnd(await presigned('large')), perSecond: 200 },
    ],
    'server-side copies': [post('/v1/copies/data', { from: 'large', to: 'copy' }, 5)],
    'bodies signed in chunks': async () => [
      { ...by, ...signedInChunks(`127.0.0.1:${port}`, await hostile.keys(), 4 * MIB), perSecond: 5 },
    ],
    'open uploads': [post('/v1/uploads/data', { key: 'never-finished' }, 50)],
    'many empty objects': [put(`tiny/${RANDOM_TEXT}`, 200)],
    'long keys': [put(`${FOLDERS}${RANDOM_TEXT}`, 20)],
    'exchange of principals': [exchange(hostile, 50)],
    // The first of these requests deletes the objects; for the others the server searches a thousand missing ones.
    'bulk deletions': async () => [
      post('/v1/deletions/data', { keys: thousand }, 5),
      { ...by, ...bulkDeletion(`127.0.0.1:${port}`, await hostile.keys(), thousand), perSecond: 5 },
    ],
  };
}

/** What the operator requests when somebody keeps exchanging a Capsule's credentials. */
function exchange({ capsule, principal, controlPort }: Caller, perSecond: number): Act {
  const body = JSON.stringify({
    capsule_id: capsule,
    app_id: 'exchanged',
    principal_token: `spc_osw_${RANDOM_TEXT}`,
  });
  const head = headOf('POST /v1/capsules/apps/create', {
    host: 'objectstore-broker',
    authorization: `Bearer ${principal}`,
    'content-type': 'application/json',
    'content-length': body.length,
    connection: 'close',
  });
  return { kind: 'requests', port: controlPort, from: HOSTILE, head, body: [body, 1], perSecond };
}

const withAnotherEnd = (head: string): string =>
  head.replace(
    /(X-Amz-Signature=)(.)/,
    (_, name: string, digit: string) => `${name}${digit === '0' ? 1 : 0}`,
  );

interface Request {
  readonly head: string;
  readonly body: readonly [string, number];
}

function bulkDeletion(host: string, keys: Keys, names: readonly string[]): Request {
  const objects = names.map((name) => `<Object><Key>${name}</Key></Object>`).join('');
  const body = `<Delete><Quiet>true</Quiet>${objects}</Delete>`;
  const hash = createHash('sha256').update(body).digest('hex');
  const { headers } = signed(host, keys, { method: 'POST', path: '/data', query: [['delete', '']], hash });
  return {
    head: headOf('POST /data?delete=', { ...headers, 'content-length': body.length }),
    body: [body, 1],
  };
}

/** A body as SDKs send a stream: each chunk has a signature that covers the signature of the chunk before it. */
function signedInChunks(host: string, keys: Keys, bytes: number): Request {
  const { headers, key, time, scope, signature } = signed(host, keys, {
    method: 'PUT',
    path: '/data/in-chunks',
    query: [],
    hash: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
    more: [['x-amz-decoded-content-length', String(bytes)]],
  });
  const chunk = 'x'.repeat(CHUNK);
  let before = signature;
  let body = '';
  for (let left = bytes; left >= 0; left -= CHUNK) {
    const part = left > 0 ? chunk : '';
    const hash = createHash('sha256').update(part).digest('hex');
    const text = ['AWS4-HMAC-SHA256-PAYLOAD', time, scope, before, EMPTY_SHA256, hash].join('\n');
    before = hmac(key, text).toString('hex');
    body += `${part.length.toString(16)};chunk-signature=${before}\r\n${part}\r\n`;
  }
  return {
    head: headOf('PUT /data/in-chunks', { ...headers, 'content-length': body.length }),
    body: [body, 1],
  };
}

/** The headers of an S3 request, valid for a quarter of an hour, and the values that sign its chunks. */
function signed(
  host: string,
  { AccessKeyId, SecretAccessKey }: Keys,
  {
    hash,
    more = [],
    ...what
  }: {
    readonly method: string;
    readonly path: string;
    readonly query: readonly (readonly [string, string])[];
    readonly hash: string;
    readonly more?: readonly (readonly [string, string])[];
  },
) {
  const time = amzDate(new Date());
  const day = { day: time.slice(0, 8), region: REGION };
  const scope = scopeText(day);
  const all = [['host', host], ['x-amz-content-sha256', hash], ['x-amz-date', time], ...more] as const;
  const key = signingKey(SecretAccessKey, day);
  const { signature, signedHeaders } = signatureOf(
    { ...what, headers: all, payload: hash },
    key,
    time,
    scope,
  );
  const authorization = `${ALGORITHM} Credential=${AccessKeyId}/${scope}, SignedHeaders=${signedHeaders}, Signature=${signature}`;
  return {
    headers: { ...Object.fromEntries(all), authorization, connection: 'close' },
    key,
    time,
    scope,
    signature,
  };
}
