import type { Secret } from '@space/broker-kit';
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  ClientSecretPost,
  type Configuration,
  calculatePKCECodeChallenge,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  None,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client';
import { Agent, fetch } from 'undici';
import { type Authority, connectorBy } from '../authority.ts';
import type { Person } from '../kubernetes/client.ts';
import { IssuerError } from './issuer-error.ts';
import type { Trip } from './session.ts';

export interface IssuerOptions {
  readonly url: string;
  readonly clientId: string;
  /** The secret of a confidential client. */
  readonly clientSecret?: (() => Secret<string>) | undefined;
  /** The CA of the issuer, if it is not a public one. */
  readonly authority?: Authority | undefined;
  readonly scope: string;
  readonly userClaim: string;
  readonly groupsClaim: string;
  /** Prefix of each name from the issuer, so that it can never name a user or group of the cluster's own. */
  readonly prefix: string;
  /** Groups, without the prefix, that count; all others are ignored. */
  readonly groups: readonly string[];
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
}

type Proof = Pick<Trip, 'state' | 'nonce' | 'verifier'>;

/** Names that are valid in a header and do not belong to the cluster itself. */
const NAME = /^(?!system:)[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/;
const CALL_SECONDS = 10;
/** The time for which the issuer's discovery document is used, since the issuer may change its endpoints and keys. */
const FRESH_MS = 300_000;
/** While the issuer does not answer, its last document is used, and it is asked again after this time. */
const AGAIN_MS = 30_000;

interface Found {
  readonly secret: string | undefined;
  readonly configuration: Configuration;
  readonly until: number;
}

/** An OIDC issuer, used with the code flow, PKCE, state and nonce; the ID token's signature is verified, too. */
export class Issuer {
  readonly host: string;
  readonly #options: IssuerOptions;
  readonly #dispatcher: Agent;
  readonly #now: () => number;
  #found: Found | undefined;

  constructor(options: IssuerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.host = new URL(options.url).host;
    this.#dispatcher = new Agent({ connect: connectorBy(options.authority) });
  }

  /** Returns the address for the redirect, and the values that the answer must match. */
  async begin(redirectUri: string): Promise<{ readonly url: URL; readonly proof: Proof }> {
    const configuration = await this.#configuration();
    const proof = { state: randomState(), nonce: randomNonce(), verifier: randomPKCECodeVerifier() };
    const url = buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: this.#options.scope,
      state: proof.state,
      nonce: proof.nonce,
      code_challenge: await calculatePKCECodeChallenge(proof.verifier),
      code_challenge_method: 'S256',
    });
    return { url, proof };
  }

  /** Returns the person whom the answer names. */
  async finish(answer: URL, { state, nonce, verifier }: Proof): Promise<Person> {
    const configuration = await this.#configuration();
    const checks = {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    };
    const tokens = await authorizationCodeGrant(configuration, answer, checks).catch((cause: unknown) => {
      throw new IssuerError('the issuer’s answer was not accepted', { cause });
    });
    return this.#personOf(tokens.claims() ?? {});
  }

  close(): Promise<void> {
    return this.#dispatcher.destroy();
  }

  #personOf(claims: Readonly<Record<string, unknown>>): Person {
    const { userClaim, groupsClaim, prefix, groups } = this.#options;
    const name = claims[userClaim];
    const user = `${prefix}${typeof name === 'string' ? name : ''}`;
    if (typeof name !== 'string' || name === '' || !NAME.test(user))
      throw new IssuerError(`the claim ${userClaim} has no valid name`);
    if (userClaim === 'email' && (claims['email_verified'] ?? true) !== true)
      throw new IssuerError('the address is not verified');
    const all = [claims[groupsClaim] ?? []].flat();
    const kept = groups.filter((group) => all.includes(group)).map((group) => `${prefix}${group}`);
    return { user, groups: kept.filter((group) => NAME.test(group)) };
  }

  async #configuration(): Promise<Configuration> {
    const secret = this.#options.clientSecret?.().reveal();
    const known = this.#found?.secret === secret ? this.#found : undefined;
    if (known !== undefined && this.#now() < known.until) return known.configuration;
    const found = await this.#discover(secret).catch((error: unknown) => {
      if (known === undefined) throw error;
      return { ...known, until: this.#now() + AGAIN_MS };
    });
    this.#found = found;
    return found.configuration;
  }

  async #discover(secret: string | undefined): Promise<Found> {
    const { url, clientId } = this.#options;
    const authentication = secret === undefined ? None() : ClientSecretPost(secret);
    const configuration = await discovery(new URL(url), clientId, undefined, authentication, {
      timeout: CALL_SECONDS,
      [customFetch]: (target, options) =>
        fetch(target, { ...options, dispatcher: this.#dispatcher } as never) as unknown as Promise<Response>,
    }).catch((cause: unknown) => {
      throw new IssuerError('the issuer did not answer', { cause });
    });
    enableNonRepudiationChecks(configuration);
    return { secret, configuration, until: this.#now() + FRESH_MS };
  }
}
