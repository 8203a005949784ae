import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import * as z from 'zod';
import { type Environment, readEnvironment } from '../config.ts';
import { newToken } from '../tokens.ts';

/** A mutation that a working listener must refuse. */
interface RefusalProbe {
  readonly port: number;
  readonly method: 'POST' | 'PUT';
  readonly path: string;
  /** The audience of the credential that the mutation requires. */
  readonly audience: Parameters<typeof newToken>[0];
  /** Whether this listener speaks plain HTTP, whatever the others do. */
  readonly plain?: boolean;
  /** The time for which the listener delays the refusal of a wrong token, in milliseconds. */
  readonly heldMs?: number;
}

/** Milliseconds for each answer, in addition to a deliberate delay of the refusal. */
const TIMEOUT_MS = 5_000;

/** How the health check verifies its own listener; undefined for plain HTTP. */
interface Believed {
  /** The certificate names the Service, not loopback. */
  readonly servername: string;
  /** The authorities in PEM; by default those of the system. */
  readonly ca?: string;
}

/** Settings of the health check beside the service's own, of which it reads ports and `TLS_CERT_FILE`. */
export const schema = z.object({
  TLS_SERVER_NAME: z
    .string()
    .default('localhost')
    .describe("Name in the service's certificate. It is read only if `TLS_CERT_FILE` is set."),
  TLS_CA_FILE: z
    .string()
    .optional()
    .describe("PEM file of the certificate authority that is accepted. Without it, the system's are."),
});

function believedFrom(environment: Environment): Believed | undefined {
  if (!environment['TLS_CERT_FILE']) return undefined;
  const { TLS_SERVER_NAME: servername, TLS_CA_FILE: path } = readEnvironment(schema, environment);
  return { servername, ...(path === undefined ? {} : { ca: readFileSync(path, 'utf8') }) };
}

/** A container's health check: exits 0 only if its live listeners refuse what they must. */
export async function checkHealth(environment: Environment, probes: readonly RefusalProbe[]): Promise<void> {
  try {
    await requireRefusals(probes, believedFrom(environment));
  } catch (error) {
    console.error(error instanceof Error ? error.message : 'unhealthy');
    process.exitCode = 1;
  }
}

/**
 * Sends each mutation without a credential and with a wrong token, and throws unless all are refused with 403, over a
 * certificate that callers accept, too. It has no credential, and a refusal changes nothing.
 */
async function requireRefusals(probes: readonly RefusalProbe[], tls: Believed | undefined): Promise<void> {
  const statuses = await Promise.all(
    probes.flatMap((probe) => [
      statusOf(probe, undefined, probe.plain ? undefined : tls),
      statusOf(probe, `Bearer ${newToken(probe.audience).reveal()}`, probe.plain ? undefined : tls),
    ]),
  );
  if (!statuses.every((status) => status === 403)) throw new Error(`not refused: ${statuses.join(', ')}`);
}

function statusOf(
  { port, method, path, heldMs = 0 }: RefusalProbe,
  authorization: string | undefined,
  tls: Believed | undefined,
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
    signal: AbortSignal.timeout(TIMEOUT_MS + heldMs),
    ...tls,
  };
  return new Promise((resolve, reject) => {
    const request = (tls !== undefined ? httpsRequest : httpRequest)(options, (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode));
    });
    request.once('error', reject);
    request.end('{}');
  });
}
