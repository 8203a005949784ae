import { type Definition, definitionDigest } from '@space/manifests';
import { expect, test } from 'vitest';
import { egressGateways } from '../../egress/gateways.ts';
import type { Assistant } from '../../kinds.ts';
import { ANNOTATION } from '../../names.ts';
import type { ApiClient, ApiRequest } from '../../runtime/client.ts';
import { judgeInputs } from './judge.ts';
import { readSealed } from './sealed.ts';

/** Keys of a manifest that every object has already. */
const KEY = 'constructor';

const definition: Definition = {
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/accounts' }],
  header: 'Authorization',
};

test('an input is missing or bound, whatever its name', async () => {
  const assistant = { metadata: { name: 'a', uid: 'u' }, spec: { capsule: 'home' } } as Assistant;
  const sealedAs = (data: Record<string, string>) => {
    const secret = { metadata: { name: 's', annotations: { [ANNOTATION.owner]: 'u' } }, data };
    const client = { call: async (_: ApiRequest) => secret } as unknown as ApiClient;
    const names = { systemNamespace: 'home-system' };
    return readSealed(
      { client, names } as Parameters<typeof readSealed>[0],
      assistant,
      'a',
      new AbortController().signal,
    );
  };
  const entered = { values: new Map(), problems: new Map() };
  const judged = async (data: Record<string, string>) =>
    judgeInputs({ entered, sealed: await sealedAs(data) }, { [KEY]: definition }).reason;
  const encode = (text: string) => Buffer.from(text).toString('base64');
  expect(await judged({})).toBe('InputsMissing');
  const bound = {
    [KEY]: encode('envelope'),
    [`${KEY}.definition`]: encode(definitionDigest(definition)),
    [`${KEY}.source`]: encode('u/1'),
  };
  expect(await judged(bound)).toBe('Ready');
});

test('an empty answer of the gateway seals no input, whatever the name of the input', async () => {
  const replica = { key: 'a', address: '127.0.0.1', pod: 'a', serving: true, lost: false };
  const answer = { revision: 'r', reentry: [], resealed: {} };
  const gateways = egressGateways(() => [replica], (async () => answer) as never);
  const about = { capsule_id: 'home', app_id: 'a', assistant_uid: 'u' };
  const put = { ...about, revision: 'r', allowed_hosts: [], stored_inputs: {} };
  const { resealed } = await gateways.put(put as never, () => [], new AbortController().signal);
  expect(resealed[KEY]).toBeUndefined();
});
