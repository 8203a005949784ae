import { describe, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  gone,
  installed,
  kube,
  namespaceOf,
  ready,
  runningPod,
  system,
  unique,
  untilCondition,
} from './support/space.ts';

/**
 * This program runs in an Assistant. It sends one request for an object, with the Assistant's token or another, and
 * prints status and body.
 */
const REQUEST = `
  const { readFileSync } = require('node:fs');
  const [method, path, body, token = readFileSync(process.env.OBJECT_STORE_TOKEN_FILE, 'utf8').trim()] = process.argv.slice(1);
  fetch(process.env.OBJECT_STORE_URL + path, {
    method,
    headers: { authorization: 'Bearer ' + token },
    ...(body ? { body } : {}),
  }).then(async (answer) => console.log(JSON.stringify([answer.status, await answer.text()])), (error) => console.log(JSON.stringify(['failed', String(error.cause ?? error)])));
`;

async function ask(
  namespace: string,
  id: string,
  method: string,
  path: string,
  ...more: readonly string[]
): Promise<[number, string]> {
  const pod = await runningPod(namespace, id);
  const { stdout, stderr } = await kube.exec(namespace, pod.metadata.name, [
    ...['node', '-e', REQUEST, method, path],
    ...more,
  ]);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout);
}

describe('the example Assistant', () => {
  it('keeps the statement of a month as a file', async () => {
    await ready('assistant', 'ledger');
    const namespace = await namespaceOf('household');
    const statement = '/statements/2026-11';
    const pod = await runningPod(namespace, 'ledger');
    const call = `fetch('http://127.0.0.1:' + process.env.PORT + '${statement}', { method: process.argv[1] })
      .then(async (answer) => console.log(JSON.stringify([answer.status, await answer.json()])))`;
    const run = async (method: string) =>
      JSON.parse((await kube.exec(namespace, pod.metadata.name, ['node', '-e', call, method])).stdout);
    const made = await run('POST');
    expect(made).toEqual([
      200,
      { month: '2026-11', statement: expect.stringContaining('Statement 2026-11') },
    ]);
    expect(await run('GET')).toEqual(made);
  });
});

describe('an Assistant’s files', () => {
  it('are its own, shared where it says so, bounded, and gone with it', async () => {
    const [home, other] = [unique('files'), unique('files')];
    await kube.apply(
      capsule(home, { quota: { storage: '64Ki' } }),
      capsule(other),
      assistant(home, 'one', {}, `${home}-one`),
      assistant(home, 'two', {}, `${home}-two`),
      assistant(other, 'one', {}, `${other}-one`),
    );
    await Promise.all([`${home}-one`, `${home}-two`, `${other}-one`].map((name) => ready('assistant', name)));
    await untilCondition('capsule', home, 'ObjectStoreReady', 'True', 'Ready');
    const [inHome, inOther] = [await namespaceOf(home), await namespaceOf(other)];
    const own = `/v1/objects/data/${home}`;
    const shared = `/v1/objects/shared/${home}`;

    expect((await ask(inHome, 'one', 'PUT', own, 'mine'))[0]).toBe(200);
    expect(await ask(inHome, 'one', 'GET', own)).toEqual([200, 'mine']);
    expect((await ask(inHome, 'two', 'GET', own))[0]).toBe(404);
    expect((await ask(inOther, 'one', 'GET', own))[0]).toBe(404);
    expect((await ask(inHome, 'one', 'PUT', shared, 'ours'))[0]).toBe(200);
    expect(await ask(inHome, 'two', 'GET', shared)).toEqual([200, 'ours']);
    expect((await ask(inOther, 'one', 'GET', shared))[0]).toBe(404);
    expect((await ask(inHome, 'one', 'PUT', own, 'x'.repeat(70_000)))[0]).toBe(507);
    expect((await ask(inHome, 'one', 'GET', own, '', 'spc_osw_nobody'))[0]).toBe(403);

    await kube.remove('assistant', `${home}-one`, installed.namespace);
    await gone('assistant', `${home}-one`, installed.namespace);
    expect(await ask(inHome, 'two', 'GET', shared)).toEqual([200, 'ours']);
    for (const name of [home, other]) await kube.remove('capsule', name, installed.namespace);
    for (const name of [home, other]) await gone('capsule', name, installed.namespace);
    expect(await kube.list('secrets', system, `platform.space/capsule=${home}`)).toEqual([]);
  });
});
