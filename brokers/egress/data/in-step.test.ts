import { afterEach, describe, expect, it, vi } from 'vitest';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';

/** A replica that may lack an Assistant's policy must not refuse it permanently. */

const NEVER = 10 * 60_000;
const WRONG = `spc_egr_${'A'.repeat(43)}`;
const input = (credential?: string) =>
  `POST /i/nobody/x HTTP/1.1\r\nhost: assistant-egress\r\nconnection: close\r\n${credential === undefined ? '' : `authorization: Bearer ${credential}\r\n`}content-length: 0\r\n\r\n`;
const tunnel = (credential: string) =>
  `CONNECT a.org:443 HTTP/1.1\r\nhost: a.org\r\nproxy-authorization: Bearer ${credential}\r\n\r\n`;

let test: TestGateway;
afterEach(() => test.close());

const waiting = async () => /^space_egress_waiting (\d+)$/m.exec(await test.registry.metrics())?.[1];

describe('a replica that does not have all policies yet', () => {
  it.each([
    ['a request', input(WRONG)],
    ['a tunnel', tunnel(WRONG)],
  ])('tells %s of an unknown caller to retry, and refuses it permanently afterwards', async (_, bytes) => {
    test = await makeGateway({ inStep: false });
    const early = await test.raw(bytes);
    expect(early).toMatch(/^HTTP\/1\.1 503 /);
    expect(early).toMatch(/^retry-after: [1-9]\d*\r$/m);
    expect(early).toMatch(/^platform-egress-error: unavailable\r$/m);
    expect(early).not.toContain('another way');
    test.gateway.policies.markInStep();
    const late = await test.raw(bytes);
    expect(late).toMatch(/^HTTP\/1\.1 403 /);
    expect(late).not.toMatch(/^retry-after/m);
  });

  it('refuses permanently what no policy could allow', async () => {
    test = await makeGateway({ inStep: false });
    for (const credential of [undefined, 'nonsense'])
      expect(await test.raw(input(credential))).toMatch(/^HTTP\/1\.1 403 /);
  });

  it('serves known callers', async () => {
    test = await makeGateway({ inStep: false });
    await test.put({ addresses: ['127.0.0.1'] });
    expect(await test.raw(input(test.principal))).toMatch(/^HTTP\/1\.1 404 /);
  });

  it('serves callers that become known while they wait', async () => {
    test = await makeGateway({ inStep: false, limits: { unknownWaitMs: NEVER } });
    const held = test.raw(input(test.principal));
    await vi.waitFor(async () => expect(await waiting()).toBe('1'), { timeout: 240_000, interval: 10 });
    await test.put({ addresses: ['127.0.0.1'] });
    expect(await held).toMatch(/^HTTP\/1\.1 404 /);
  });

  it('reports it in its metrics', async () => {
    test = await makeGateway({ inStep: false });
    expect(await test.registry.metrics()).toMatch(/^space_egress_in_step 0$/m);
    test.gateway.policies.markInStep();
    expect(await test.registry.metrics()).toMatch(/^space_egress_in_step 1$/m);
  });
});
