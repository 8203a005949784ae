import { createHash, createHmac } from 'node:crypto';
import type { SigningProfile } from '@space/manifests';

/** What a signature is made over. */
export interface Signable {
  readonly method: string;
  readonly path: string;
  /** Without the question mark. */
  readonly query: string | undefined;
  readonly body: Uint8Array;
  /** Seconds since 1970. */
  readonly at: number;
}

/** The signature that a profile sends in place of the stored value, which is its key. */
export function sign(profile: SigningProfile, key: Uint8Array, request: Signable): string {
  switch (profile) {
    case 'sha256-body':
      return createHmac('sha256', key).update(request.body).digest('hex');
    case 'sha256-body-base64':
      return createHmac('sha256', key).update(request.body).digest('base64');
    case 'sha256-request-v1': {
      const text = [
        'v1',
        request.method,
        request.path,
        sortedQuery(request.query),
        String(request.at),
        createHash('sha256').update(request.body).digest('hex'),
      ].join('\n');
      return `t=${request.at},v1=${createHmac('sha256', key).update(text).digest('hex')}`;
    }
  }
}

/** The parameters as they are written, in the order of their bytes. */
function sortedQuery(query: string | undefined): string {
  return query === undefined ? '' : query.split('&').sort().join('&');
}
