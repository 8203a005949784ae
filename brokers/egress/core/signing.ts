import { createHash, createHmac } from 'node:crypto';
import type { SigningProfile } from '@space/manifests';

/** The input of a signature. */
export interface Signable {
  readonly method: string;
  readonly path: string;
  /** The query without the question mark. */
  readonly query: string | undefined;
  readonly body: Uint8Array;
  /** Seconds since 1970. */
  readonly at: number;
}

export interface Signature {
  /** The text that is sent in place of the stored value, which is the key. */
  readonly text: string;
  /** The code in the text, in the forms in which a host may return it: whoever has it can repeat the request. */
  readonly secrets: readonly string[];
}

export function sign(profile: SigningProfile, key: Uint8Array, request: Signable): Signature {
  const signed = (over: string | Uint8Array, textOf: (code: Buffer) => string): Signature => {
    const code = createHmac('sha256', key).update(over).digest();
    return { text: textOf(code), secrets: [code.toString('hex'), code.toString('base64')] };
  };
  switch (profile) {
    case 'sha256-body':
      return signed(request.body, (code) => code.toString('hex'));
    case 'sha256-body-base64':
      return signed(request.body, (code) => code.toString('base64'));
    case 'sha256-request-v1': {
      const text = [
        'v1',
        request.method,
        request.path,
        sortedQuery(request.query),
        String(request.at),
        createHash('sha256').update(request.body).digest('hex'),
      ].join('\n');
      return signed(text, (code) => `t=${request.at},v1=${code.toString('hex')}`);
    }
  }
}

/** The parameters as written, ordered by their bytes. */
function sortedQuery(query: string | undefined): string {
  return query === undefined ? '' : query.split('&').sort().join('&');
}
