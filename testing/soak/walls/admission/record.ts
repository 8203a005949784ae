/** Records the requests of a file of tests to an API server, with their answers and the test that sent them. */

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createHttps, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { startVitest, type TestCase } from 'vitest/node';
import { type ApiServer, ATTACHED } from '../../../api-server.ts';
import { makePki } from '../../../certificates.ts';

const ROOT = resolve(import.meta.dirname, '../../../..');

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Answered {
  readonly status: number;
  readonly text: string;
}

/** A request with its answer, and the test that asked; `set-up` is what tests wait for before they begin. */
export interface Recorded {
  readonly asked: Asked;
  readonly answer: Answered;
  readonly test: string;
}

interface Ran {
  readonly name: string;
  /** The reason, if the tests failed. */
  readonly failed: string | undefined;
  readonly from: number;
  readonly to: number;
}

/** A kubeconfig as the test helpers write it. */
interface Kubeconfig {
  readonly clusters: readonly {
    readonly cluster: { server: string; 'certificate-authority-data': string };
  }[];
}

const KEPT = ['authorization', 'content-type', 'accept', 'impersonate-user'] as const;

/** Runs a file of tests against this API server. `but` names tests after which the requests of others cannot be repeated. */
export async function record(
  server: ApiServer,
  file: string,
  pattern?: string,
): Promise<readonly Recorded[]> {
  const pki = await makePki();
  const said: { readonly at: number; readonly asked: Asked; readonly answer: Answered }[] = [];
  const { cert, key } = await pki.issue('localhost');
  const proxy = createHttps({ cert, key }, (asked, answer) => {
    const at = Date.now();
    forward(server.url, asked, answer).then(
      (one) => said.push({ at, ...one }),
      () => answer.destroy(),
    );
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const config = JSON.parse(server.kubeconfig) as Kubeconfig;
  for (const { cluster } of config.clusters) {
    cluster.server = `https://localhost:${(proxy.address() as AddressInfo).port}`;
    cluster['certificate-authority-data'] = Buffer.from(pki.authority).toString('base64');
  }
  try {
    const ran = await testsAt(JSON.stringify(config), file, pattern);
    const failed = ran.find((one) => one.failed !== undefined);
    if (ran.length === 0 || failed !== undefined)
      throw new Error(
        `without any change, ${file} does not pass: ${failed?.name ?? 'no test ran'}: ${failed?.failed}`,
      );
    const testAt = (at: number) => ran.find(({ from, to }) => at >= from && at <= to)?.name ?? 'set-up';
    return said.map(({ at, ...one }) => ({ ...one, test: testAt(at) }));
  } finally {
    proxy.close();
    proxy.closeAllConnections();
    await pki.remove();
  }
}

async function testsAt(kubeconfig: string, file: string, pattern?: string): Promise<readonly Ran[]> {
  const ran: Ran[] = [];
  const onTestCaseResult = (test: TestCase) => {
    const { startTime = 0, duration = 0 } = test.diagnostic() ?? {};
    const { state, errors } = test.result();
    // Tests that the pattern excludes are reported as skipped.
    if (state !== 'skipped')
      ran.push({
        name: test.fullName,
        failed: state === 'passed' ? undefined : (errors?.[0]?.message ?? state),
        from: Math.floor(startTime),
        to: Math.ceil(startTime + duration),
      });
  };
  process.env[ATTACHED] = kubeconfig;
  try {
    const vitest = await startVitest('test', [file], {
      root: ROOT,
      watch: false,
      project: ['integration'],
      reporters: [{ onTestCaseResult }],
      // Few generated cases suffice, since more of them test nothing that matters here.
      env: { MANIFEST_CASES: '20' },
      ...(pattern === undefined ? {} : { testNamePattern: pattern }),
    });
    await vitest.close();
  } finally {
    delete process.env[ATTACHED];
    // Failed tests are reported below.
    process.exitCode = 0;
  }
  return ran;
}

async function forward(url: string, asked: IncomingMessage, answer: ServerResponse) {
  const body: Buffer[] = [];
  for await (const chunk of asked) body.push(chunk as Buffer);
  const request = {
    method: asked.method ?? 'GET',
    path: asked.url ?? '/',
    headers: Object.fromEntries(
      KEPT.flatMap((name) =>
        asked.headers[name] === undefined ? [] : [[name, String(asked.headers[name])]],
      ),
    ),
    body: Buffer.concat(body).toString(),
  };
  const far = await send(url, request);
  answer.writeHead(far.statusCode ?? 502, far.headers);
  let text = '';
  for await (const chunk of far) {
    text += String(chunk);
    answer.write(chunk);
  }
  answer.end();
  return { asked: request, answer: { status: far.statusCode ?? 502, text } };
}

/** Sends the request unchanged to an API server on loopback that we started. */
export async function send(url: string, { method, path, headers, body }: Asked): Promise<IncomingMessage> {
  // Without a length, the next request on this connection would be read as the body of a DELETE.
  const length = { 'content-length': String(Buffer.byteLength(body)) };
  const options = { method, headers: { ...headers, ...length }, rejectUnauthorized: false };
  const request = httpsRequest(`${url}${path}`, options);
  request.end(body);
  const [far] = (await once(request, 'response')) as [IncomingMessage];
  return far;
}
