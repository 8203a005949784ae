import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { newToken } from '../tokens.ts';

/** A mutation that a live listener must refuse. */
export interface RefusalProbe {
  readonly port: number;
  readonly method: 'POST' | 'PUT';
  readonly path: string;
  /** Of the credential that the mutation needs. */
  readonly audience: Parameters<typeof newToken>[0];
}

const TIMEOUT_MS = 5_000;

/**
 * A container's health check: sends each mutation without a credential and with a wrong token, and throws unless
 * all are refused with 403. It holds no credential, and a refusal changes nothing.
 */
export async function requireRefusals(
  probes: readonly RefusalProbe[],
  options: { tls: boolean },
): Promise<void> {
  const statuses = await Promise.all(
    probes.flatMap((probe) => [
      statusOf(probe, undefined, options.tls),
      statusOf(probe, `Bearer ${newToken(probe.audience).reveal()}`, options.tls),
    ]),
  );
  if (!statuses.every((status) => status === 403)) throw new Error(`not refused: ${statuses.join(', ')}`);
}

function statusOf(
  { port, method, path }: RefusalProbe,
  authorization: string | undefined,
  tls: boolean,
): Promise<number | undefined> {
  const options = {
    host: '127.0.0.1',
    port,
    path,
    method,
    headers: {
      'content-type': 'application/json',
      'content-length': '2',
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
