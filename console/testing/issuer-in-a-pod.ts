/** A real OIDC issuer, as a program of a pod: it signs in everybody as the person in its environment. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import Provider from 'oidc-provider';

const { ISSUER = '', REDIRECT = '', PERSON = '', GROUPS = '' } = process.env;

const provider = new Provider(ISSUER, {
  clients: [
    {
      client_id: 'space',
      redirect_uris: [REDIRECT],
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
  ],
  pkce: { required: () => true },
  conformIdTokenClaims: false,
  claims: { openid: ['sub', 'groups'] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, groups: GROUPS.split(',') }),
  }),
  async loadExistingGrant(context) {
    const { client, session, provider: own } = context.oidc;
    const grant = new own.Grant({
      clientId: client?.clientId ?? '',
      accountId: session?.accountId ?? '',
    });
    grant.addOIDCScope('openid');
    await grant.save();
    return grant;
  },
});
const answer = provider.callback();
const [cert, key] = ['/tls/tls.crt', '/tls/tls.key'].map((file) => readFileSync(file));
createServer({ cert, key }, (asked, response) => {
  if (asked.url?.startsWith('/interaction/') === true)
    void provider.interactionFinished(asked, response, { login: { accountId: PERSON } });
  else void answer(asked, response);
}).listen(8443);
process.on('SIGTERM', () => process.exit());
