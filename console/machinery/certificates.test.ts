import { once } from 'node:events';
import { createServer } from 'node:tls';
import { portOf } from '@space/broker-kit';
import { expect, it } from 'vitest';
import { makePki } from '../../testing/certificates.ts';
import { certificatesOf } from './certificates.ts';

it.each(['127.0.0.1', '[::1]'])('shows the certificate of a service at %s', async (host) => {
  const pki = await makePki();
  const server = createServer({ ...(await pki.issue('localhost')), ca: pki.authority });
  server.listen(0, host.replaceAll(/[[\]]/g, ''));
  await once(server, 'listening');
  const certificates = await certificatesOf({
    names: { space: 'home', systemNamespace: 'home-system', servicesNamespace: 'home-services' },
    services: {},
    signed: undefined,
    own: [],
    peers: [{ of: 's3', url: `https://${host}:${portOf(server)}`, authority: undefined }],
    now: () => new Date(),
    answerMs: 60_000,
  })();
  expect(certificates).toMatchObject([{ of: 'S3 server', ends: expect.any(Date) }]);
  server.close();
  await pki.remove();
});
