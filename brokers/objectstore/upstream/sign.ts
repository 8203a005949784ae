import { ALGORITHM, amzDate, type Signable, scopeText, signatureOf, signingKey } from './sigv4.ts';
import type { Target } from './target.ts';

type Pairs = Signable['headers'];

/** Adds date, payload word and Authorization to the headers of a request; `host` must be among them. */
export type Sign = (request: Signable, now: Date) => Record<string, string>;

/** Every header is signed, so that nobody between us and the upstream can add to what we ask for. */
export function createSigner(target: Target): Sign {
  let kept: Kept | undefined;
  return (request, now) => {
    // Read each time: the keys of a target may be exchanged under us.
    const { region, accessKeyId, secretAccessKey: of } = target;
    const time = amzDate(now);
    const day = time.slice(0, 8);
    if (kept?.day !== day || kept.of !== of) {
      const scope = { day, region };
      kept = { day, of, key: signingKey(of.reveal(), scope), scope: scopeText(scope) };
    }
    const headers: Pairs = [
      ...request.headers,
      ['x-amz-content-sha256', request.payload],
      ['x-amz-date', time],
    ];
    const { key, scope } = kept;
    const { signature, signedHeaders } = signatureOf({ ...request, headers }, key, time, scope);
    const all: Record<string, string> = {};
    for (const [name, value] of headers) all[name] = value;
    all['authorization'] =
      `${ALGORITHM} Credential=${accessKeyId.reveal()}/${scope}, SignedHeaders=${signedHeaders}, Signature=${signature}`;
    return all;
  };
}

/** What a day's signatures have in common. */
interface Kept {
  readonly day: string;
  readonly of: Target['secretAccessKey'];
  readonly key: Buffer;
  readonly scope: string;
}
