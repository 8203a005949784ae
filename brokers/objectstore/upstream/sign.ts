import {
  ALGORITHM,
  amzDate,
  type Signable,
  scopeText,
  signatureOf,
  signedHeaderNames,
  signingKey,
} from './sigv4.ts';
import type { Target } from './target.ts';

type Pairs = Signable['headers'];

/** Adds date, payload word and Authorization to the headers of a request; `host` must be among them. */
export type Sign = (request: Signable, now: Date) => Record<string, string>;

/** Every header is signed, so that nobody between us and the upstream can add to what we ask for. */
export function createSigner(target: Target): Sign {
  let kept:
    | { readonly day: string; readonly of: Target['secretAccessKey']; readonly key: Buffer }
    | undefined;
  return (request, now) => {
    // Read each time: the keys of a target may be exchanged under us.
    const { region, accessKeyId, secretAccessKey: of } = target;
    const time = amzDate(now);
    const scope = { day: time.slice(0, 8), region };
    if (kept?.day !== scope.day || kept.of !== of)
      kept = { day: scope.day, of, key: signingKey(of.reveal(), scope) };
    const headers: Pairs = [
      ...request.headers,
      ['x-amz-content-sha256', request.payload],
      ['x-amz-date', time],
    ];
    const signed = { ...request, headers };
    const credential = `${accessKeyId.reveal()}/${scopeText(scope)}`;
    const signature = signatureOf(signed, kept.key, time, scope);
    return {
      ...Object.fromEntries(headers),
      authorization: `${ALGORITHM} Credential=${credential}, SignedHeaders=${signedHeaderNames(signed)}, Signature=${signature}`,
    };
  };
}
