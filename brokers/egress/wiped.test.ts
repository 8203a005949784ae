import { once } from 'node:events';
import { request } from 'node:http';
import { Secret } from '@space/broker-kit';
import type { Definition } from '@space/manifests';
import { afterEach, describe, expect, it } from 'vitest';
import { makePki } from '../../testing/certificates.ts';
import { scrubberOf } from './core/scrub.ts';
import { createCustody, passingKeyring } from './custody.ts';
import { type KeptBuffers, keepBuffers } from './testing/buffers.ts';
import { makeGateway, VALUE } from './testing/gateway.ts';
import { startUpstream } from './testing/upstream.ts';

const OWNER = { capsule: 'home', app: 'ledger', uid: 'u', input: 'key', definition: 'd' };
const AWKWARD = 'sk-live-4Zq8!Vb2"Tn7/Lw5+Hd9=Xc3';
const FORMS = [
  AWKWARD,
  encodeURIComponent(AWKWARD),
  JSON.stringify(AWKWARD).slice(1, -1),
  Buffer.from(AWKWARD).toString('hex'),
  Buffer.from(AWKWARD).toString('base64').slice(0, -4),
  AWKWARD.replaceAll('"', '&quot;'),
];
const PIECES = [AWKWARD.slice(0, 10), AWKWARD.slice(10)].map((piece) => Buffer.from(piece));

let buffers: KeptBuffers | undefined;
afterEach(() => buffers?.stop());

/** Strings cannot be wiped; what is left of them is collected, and the process writes no core (Dockerfile). */
describe('a value of a stored input is in no buffer', () => {
  it('once it was sealed and opened', async () => {
    const ring = passingKeyring();
    const custody = createCustody('space', () => ring);
    buffers = keepBuffers();
    const envelope = await custody.seal(OWNER, new Secret(AWKWARD));
    for (let i = 0; i < 3; i += 1) expect(custody.open(OWNER, envelope)?.reveal()).toBe(AWKWARD);
    expect(buffers.count).toBeGreaterThan(4);
    expect(buffers.holding(AWKWARD)).toBe(0);
  });

  it('once a scrubber was created for all its forms, and has scrubbed an answer with it in two pieces', () => {
    buffers = keepBuffers();
    const scrubber = scrubberOf([AWKWARD]);
    expect(scrubber.text(`a ${AWKWARD}`)).toBe(`a ${'*'.repeat(AWKWARD.length)}`);
    const body = scrubber.body();
    const scrubbed = [...PIECES.map((piece) => body.push(piece)), body.end()];
    expect(scrubbed.join('')).toBe('*'.repeat(AWKWARD.length));
    expect(buffers.count).toBeGreaterThan(FORMS.length);
    const kept = buffers;
    expect(FORMS.map((form) => kept.holding(form))).toEqual(FORMS.map(() => 0));
  });

  it.each<[string, Definition]>([
    ['sent', { host: 'api.bank.org', routes: [{ method: 'GET', path: '/v1/rates' }], header: 'X-Api-Key' }],
    [
      'signed with',
      {
        host: 'api.bank.org',
        routes: [{ method: 'GET', path: '/v1/rates' }],
        header: 'X-Mac',
        hmac: 'sha256-body',
      },
    ],
  ])('once it was %s', async (_, definition) => {
    const pki = await makePki();
    const upstream = await startUpstream(await pki.issue('api.bank.org'));
    upstream.answer = (incoming, response) => response.end(`you said ${incoming.headers['x-api-key']}`);
    const at = { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true as const };
    const gateway = await makeGateway({
      fixed: new Map([['api.bank.org', at]]),
      authorities: pki.authority,
    });
    try {
      await gateway.put({}, { key: definition });
      buffers = keepBuffers();
      for (let i = 0; i < 3; i += 1) {
        const headers = { host: 'assistant-egress', authorization: `Bearer ${gateway.principal}` };
        const asked = request({ port: gateway.port, path: '/i/key/v1/rates', headers, agent: false }).end();
        const [answer] = await once(asked, 'response');
        expect(answer.statusCode).toBe(200);
        await once(answer.resume(), 'close');
      }
      expect(gateway.used.opened).toBeGreaterThan(2);
      expect(buffers.count).toBeGreaterThan(0);
      expect(buffers.holding(VALUE)).toBe(0);
    } finally {
      await gateway.close();
      await upstream.close();
      await pki.remove();
    }
  });
});
