import { request } from 'node:http';
import {
  ALGORITHM,
  amzDate,
  encode,
  scopeText,
  sha256,
  signatureOf,
  signingKey,
  UNSIGNED_PAYLOAD,
} from '../../../upstream/sigv4.ts';
import type { S3Keys } from './clients.ts';

/** Requests of S3 signed by hand, so that a test may say what no SDK says. */

export interface Said {
  readonly method: string;
  /** The path as sent over the wire, without the query. */
  readonly path: string;
  /** Not encoded. */
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly at?: Date;
  /** Headers that are sent and not signed. */
  readonly unsigned?: Readonly<Record<string, string>>;
  /** Headers that go unsigned although they would be: `host`, say. */
  readonly leaving?: readonly string[];
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** S3's code in an error. */
  readonly code: string | undefined;
  readonly message: string | undefined;
}

const REGION = 'us-east-1';

/** Sends a request that is signed in its Authorization header. */
export function sendSigned(base: string, keys: S3Keys, said: Said): Promise<Answer> {
  const { method, path, query = {}, body = '', at = new Date(), unsigned = {}, leaving = [] } = said;
  const time = amzDate(at);
  const scope = { day: time.slice(0, 8), region: REGION };
  const payload = sha256(body);
  const sent = {
    host: new URL(base).host,
    'x-amz-date': time,
    'x-amz-content-sha256': payload,
    ...said.headers,
  };
  const headers = Object.entries(sent).filter(([name]) => !leaving.includes(name));
  const pairs = Object.entries(query).map(([name, value]) => [encode(name), encode(value)] as const);
  const { signature, signedHeaders } = signatureOf(
    { method, path, query: pairs, headers, payload: sent['x-amz-content-sha256'] },
    signingKey(keys.SecretAccessKey, scope),
    time,
    scopeText(scope),
  );
  const credential = `${keys.AccessKeyId}/${scopeText(scope)}`;
  const authorization = `${ALGORITHM} Credential=${credential}, SignedHeaders=${signedHeaders}, Signature=${signature}`;
  const suffix = pairs.map(([name, value]) => `${name}=${value}`).join('&');
  return send(`${base}${path}${suffix === '' ? '' : `?${suffix}`}`, {
    method,
    headers: { ...sent, ...unsigned, authorization },
    body,
  });
}

export interface Presigning extends Omit<Said, 'body' | 'unsigned'> {
  readonly expires?: number;
  /** The scope of another day than the request is signed at. */
  readonly day?: string;
  /** Parameters that are there a second time. */
  readonly again?: Readonly<Record<string, string>>;
}

/** A URL that is signed in its query, and good for an hour unless it says otherwise. */
export function presign(base: string, keys: S3Keys, what: Presigning): string {
  const { method, path, query = {}, headers = {}, at = new Date(), expires = 3_600, leaving = [] } = what;
  const { again = {} } = what;
  const time = amzDate(at);
  const scope = { day: what.day ?? time.slice(0, 8), region: REGION };
  const signed = Object.entries({ host: new URL(base).host, ...headers }).filter(
    ([name]) => !leaving.includes(name),
  );
  const all = {
    'X-Amz-Algorithm': ALGORITHM,
    'X-Amz-Credential': `${keys.AccessKeyId}/${scopeText(scope)}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(expires),
    'X-Amz-SignedHeaders': signed
      .map(([name]) => name)
      .sort()
      .join(';'),
    ...query,
  };
  const pairs = [...Object.entries(all), ...Object.entries(again)].map(
    ([name, value]) => [encode(name), encode(value)] as const,
  );
  const payload = query['X-Amz-Content-Sha256'] ?? headers['x-amz-content-sha256'] ?? UNSIGNED_PAYLOAD;
  const { signature } = signatureOf(
    { method, path, query: pairs, headers: signed, payload },
    signingKey(keys.SecretAccessKey, scope),
    time,
    scopeText(scope),
  );
  const text = pairs.map(([name, value]) => `${name}=${value}`).join('&');
  return `${base}${path}?${text}&X-Amz-Signature=${signature}`;
}

/** The URL goes over the wire as it is written: nothing parses it but for the address. */
export function send(
  url: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: { method?: string; headers?: Readonly<Record<string, string>>; body?: string | Buffer } = {},
): Promise<Answer> {
  const [, hostname = '', port = '', path = ''] = /^http:\/\/([^:/]+):(\d+)(.*)$/s.exec(url) ?? [];
  return new Promise((resolve, reject) => {
    const length = body.length === 0 && method !== 'PUT' ? {} : { 'content-length': Buffer.byteLength(body) };
    const outgoing = request(
      { hostname, port, path, method, headers: { ...length, ...headers }, agent: false },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({
            status: incoming.statusCode ?? 0,
            headers: incoming.headers,
            text,
            code: /<Code>([^<]*)<\/Code>/.exec(text)?.[1],
            message: /<Message>([^<]*)<\/Message>/.exec(text)?.[1],
          });
        });
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}
