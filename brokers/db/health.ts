import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { newToken } from '@space/broker-kit';
import { CONTRACT } from './contract.ts';

/**
 * The container's health check: exits 0 only if the live listener refuses a mutation without a credential and one
 * with a wrong token, both with 403. It holds no credential, and a refusal never reaches the database.
 */
const TIMEOUT_MS = 5_000;

function statusOf(authorization: string | undefined): Promise<number | undefined> {
  const tls = (process.env['TLS_CERT_FILE'] ?? '') !== '';
  const options = {
    host: '127.0.0.1',
    port: Number(process.env['LISTEN_PORT'] || 8080),
    path: CONTRACT['capsule.finalize'].path,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(authorization === undefined ? {} : { authorization }),
    },
    signal: AbortSignal.timeout(TIMEOUT_MS),
    // The certificate names the Service, not loopback; nothing secret is sent.
    rejectUnauthorized: false,
  };
  return new Promise((resolve, reject) => {
    const request = (tls ? httpsRequest : httpRequest)(options, (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode));
    });
    request.once('error', reject);
    request.end('{}');
  });
}

try {
  const wrong = `Bearer ${newToken('prv').reveal()}`;
  const statuses = await Promise.all([statusOf(undefined), statusOf(wrong)]);
  if (!statuses.every((status) => status === 403)) throw new Error(`not refused: ${statuses.join(', ')}`);
} catch (error) {
  console.error(error instanceof Error ? error.message : 'unhealthy');
  process.exitCode = 1;
}
