import * as provider from '../../space/testing/provider.ts';
import type { Engine } from '../engines.ts';
import { installed, kube, programPod, runningPod } from './space.ts';
import { until } from './until.ts';

export type { Provider } from '../../space/testing/provider.ts';

/** An S3 server of a Capsule's own on the suites' cluster. */
export const startProvider = (namespace: string) =>
  provider.startProvider(kube, namespace, installed.engines.s3.image);

/** How many files of an S3 server's pod have this text in them. */
export const filesWith = (engine: Engine, text: string) => provider.filesWith(kube, engine, text);

/**
 * Runs in the operator's pod, since only that reaches the broker's control listener: one operation, as a console
 * sends it.
 */
const OPERATE = `
  let text = '';
  process.stdin.on('data', (chunk) => { text += chunk; }).on('end', async () => {
    const { url, token, body } = JSON.parse(text);
    const headers = { 'content-type': 'application/json', authorization: 'Bearer ' + token };
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    console.log(JSON.stringify([answer.status, await answer.json()]));
  });
`;

/** The five operations on a Capsule's credentials, with its principal. */
export function credentialsOf(space: string, capsule: string) {
  const namespace = `${space}-system`;
  return async (operation: string, body: object): Promise<[number, Record<string, unknown>]> => {
    const pod = await programPod(namespace, 'operator');
    const secret = await kube.get('secret', `capsule-${capsule}-objectstore`, namespace);
    const input = {
      url: `https://objectstore-broker.${space}-services.svc:8080/v1/capsules/credentials/${operation}`,
      token: Buffer.from(secret?.['data'].principal ?? '', 'base64').toString(),
      body: { capsule_id: capsule, ...body },
    };
    const trusting = ['env', 'NODE_EXTRA_CA_CERTS=/etc/space/ca/ca.crt', 'node', '-e', OPERATE];
    const { stdout, stderr } = await kube.exec(namespace, pod.metadata.name, trusting, JSON.stringify(input));
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout);
  };
}

/** Runs in an Assistant: sends one request with its grant, or with another, and also returns its current grant. */
const ASK = `
  const { existsSync, readFileSync } = require('node:fs');
  const [method, path, body, given] = process.argv.slice(1);
  const { OBJECT_STORE_URL, OBJECT_STORE_TOKEN_FILE, OBJECT_STORE_GRANT_FILE } = process.env;
  const mine = existsSync(OBJECT_STORE_GRANT_FILE) ? readFileSync(OBJECT_STORE_GRANT_FILE, 'utf8') : '';
  const grant = given || mine;
  const headers = { authorization: 'Bearer ' + readFileSync(OBJECT_STORE_TOKEN_FILE, 'utf8').trim(), ...(grant ? { 'platform-grant': grant } : {}) };
  fetch(OBJECT_STORE_URL + path, { method, headers, ...(body ? { body } : {}) })
    .then(async (answer) => console.log(JSON.stringify({ status: answer.status, text: await answer.text(), grant: mine })));
`;

/** Sends one request for an object, as an Assistant does that reads its grant's file each time. */
export async function granted(
  namespace: string,
  id: string,
  ...request: readonly string[]
): Promise<{ readonly status: number; readonly text: string; readonly grant: string }> {
  const pod = (await runningPod(namespace, id)).metadata.name;
  return answered(namespace, pod, ['node', '-e', ASK, ...request]);
}

/**
 * The output of a program in a pod that calls a service. If the node is late with its connection, it is tried again.
 */
export const answered = <T>(namespace: string, pod: string, program: readonly string[]): Promise<T> =>
  until('an answer', async () => {
    const { stdout, stderr } = await kube.exec(namespace, pod, program);
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as T;
  });
