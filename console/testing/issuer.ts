import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import Provider from 'oidc-provider';
import { Agent, request } from 'undici';
import { makeAuthority } from '../../testing/certificates.ts';
import { freePort } from '../../testing/ports.ts';

/** A real OIDC issuer over TLS, which signs in everybody as the person that the test sets. */
export interface TestIssuer {
  readonly url: string;
  readonly caFile: string;
  /** The claims of the next sign-in. */
  claims: Record<string, unknown>;
  /** Whether it refuses each code, and quotes what it was sent. */
  isQuoting: boolean;
  /** Follows the issuer from where the console sent somebody, until it sends them back: with what path and query. */
  goThrough(from: string): Promise<string>;
  stop(): Promise<void>;
}

export async function startIssuer(
  redirectUris: readonly string[],
  secret = 'secret-of-the-console',
): Promise<TestIssuer> {
  const directory = mkdtempSync(join(tmpdir(), 'space-issuer-'));
  const authority = makeAuthority(directory, 'issuer-authority');
  const { cert, key } = authority.sign('localhost', ['DNS:localhost']);
  const port = await freePort();
  const url = `https://localhost:${port}`;
  const issuer: TestIssuer = {
    ...{ url, caFile: authority.cert, goThrough, stop },
    claims: {},
    isQuoting: false,
  };
  const provider = new Provider(url, {
    clients: [
      {
        client_id: 'space',
        client_secret: secret,
        redirect_uris: [...redirectUris],
        grant_types: ['authorization_code'],
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    pkce: { required: () => true },
    conformIdTokenClaims: false,
    claims: { openid: ['sub', 'groups', 'email', 'email_verified', 'name'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, ...issuer.claims }) }),
    async loadExistingGrant(context) {
      const { client, session } = context.oidc;
      const grant = new context.oidc.provider.Grant({
        clientId: client?.clientId ?? '',
        accountId: session?.accountId ?? '',
      });
      grant.addOIDCScope('openid');
      await grant.save();
      return grant;
    },
  });
  const answer = provider.callback();
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (asked, response) => {
    if (issuer.isQuoting && asked.url === '/token')
      void text(asked).then((sent) =>
        response
          .writeHead(400, { 'content-type': 'application/json' })
          .end(JSON.stringify({ error: 'invalid_client', error_description: sent })),
      );
    else if (asked.url?.startsWith('/interaction/') === true)
      void provider.interactionFinished(asked, response, {
        login: { accountId: String(issuer.claims['sub'] ?? 'mia') },
      });
    else void answer(asked, response);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const dispatcher = new Agent({ connect: { ca: readFileSync(authority.cert) } });

  async function goThrough(from: string): Promise<string> {
    const cookies = new Map<string, string>();
    let at = from;
    while (at.startsWith(url)) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const { headers, statusCode, body } = await request(at, { dispatcher, headers: { cookie } });
      const text = await body.text();
      for (const line of [headers['set-cookie'] ?? []].flat()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
        cookies.set(name, value);
      }
      if (typeof headers.location !== 'string') throw new Error(`the issuer answered ${statusCode} ${text}`);
      at = new URL(headers.location, url).href;
    }
    const { pathname, search } = new URL(at);
    return `${pathname}${search}`;
  }

  async function stop(): Promise<void> {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await dispatcher.destroy();
    rmSync(directory, { recursive: true });
  }

  return issuer;
}
