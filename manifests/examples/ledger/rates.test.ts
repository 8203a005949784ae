import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseAmount } from './money.ts';
import { createBank, quoteIn } from './rates.ts';
import { worthOf } from './worth.ts';

const SAID = { base: 'EUR', date: '2026-11-20', rates: { USD: '1.25', JPY: '172.3' } };
let gateway: Server;
let url: string;
let answer: RequestListener;
let asked: IncomingMessage | undefined;

beforeAll(async () => {
  gateway = createServer((request, response) => {
    asked = request;
    answer(request, response);
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}/i/bank`;
});
afterAll(() => gateway.close());
beforeEach(() => {
  answer = (_, response) => response.end(JSON.stringify(SAID));
});

const bank = () => createBank({ INPUT_BANK_URL: url, EGRESS_TOKEN: 'spc_egr_x' });

describe('the bank', () => {
  it('is disabled for a ledger without its stored input', () => {
    expect(createBank({})).toBeUndefined();
  });

  it('is called with only the principal', async () => {
    const quote = await bank()?.quote('EUR');
    expect(quote?.rates.get('JPY')).toEqual({ digits: 1723n, decimals: 1 });
    expect([asked?.url, asked?.headers.authorization]).toEqual([
      '/i/bank/v1/rates?base=EUR',
      'Bearer spc_egr_x',
    ]);
  });

  it.each<[string, RequestListener, RegExp]>([
    [
      'the gateway refuses',
      (_, response) => response.writeHead(403, { 'platform-egress-error': 'route_denied' }).end('{}'),
      /not asked: route_denied/,
    ],
    ['it refuses', (_, response) => response.writeHead(401).end(), /answered 401/],
    [
      'it sends elsewhere',
      (_, response) => response.writeHead(302, { location: '/x' }).end(),
      /does not answer/,
    ],
    ['it breaks off', (_, response) => response.destroy(), /does not answer/],
    ['it says too much', (_, response) => response.end(' '.repeat(70_000)), /too much/],
    ['it says no JSON', (_, response) => response.end('rates'), /something else/],
    [
      'it speaks of another base',
      (_, response) => response.end(JSON.stringify({ ...SAID, base: 'USD' })),
      /something else/,
    ],
  ])('has no rates when %s', async (_, listener, message) => {
    answer = listener;
    await expect(bank()?.quote('EUR')).rejects.toMatchObject({
      status: 502,
      code: 'rates_unavailable',
      message: expect.stringMatching(message),
    });
  });

  it.each([
    'null',
    '[]',
    '{}',
    '{"base":"EUR","date":"2026-11-20","rates":{"USD":1.25}}',
    '{"base":"EUR","date":"2026-11-20","rates":{"USD":"0.00"}}',
    '{"base":"EUR","date":"2026-11-20","rates":{"USD":"-1"}}',
    '{"base":"EUR","date":"today","rates":{}}',
    '{"base":"euro","date":"2026-11-20","rates":{}}',
  ])('is not trusted if it answers %s', (text) => expect(quoteIn(text)).toBeUndefined());
});

describe('the net worth of a household', () => {
  const quote = quoteIn(JSON.stringify(SAID));
  if (quote === undefined) throw new Error('no quote');

  it('is the sum of all its accounts, each currency with its own decimals', () => {
    const holdings = [
      { currency: 'EUR', minor: 1_000n },
      { currency: 'USD', minor: 500n },
      { currency: 'JPY', minor: 1_723n },
      { currency: 'USD', minor: -1_000n },
      { currency: 'CHF', minor: 1n },
    ];
    expect(worthOf(holdings, quote)).toEqual({
      in: 'EUR',
      date: '2026-11-20',
      worth: '16.00',
      holdings: [
        { currency: 'EUR', balance: '10.00', worth: '10.00' },
        { currency: 'USD', balance: '-5.00', worth: '-4.00' },
        { currency: 'JPY', balance: '1723', worth: '10.00' },
      ],
      unknown: ['CHF'],
    });
  });

  it('is never off by more than half a cent for each currency, below zero as well as above', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 15n), max: 10n ** 15n }), (minor) => {
        const cents = parseAmount(worthOf([{ currency: 'JPY', minor }], quote).worth, 'EUR') as bigint;
        const mirrored = parseAmount(worthOf([{ currency: 'JPY', minor: -minor }], quote).worth, 'EUR');
        expect(mirrored).toBe(-cents);
        // cents / 100 × 172.3 is the yen that they are, half a cent of which is 0.8615.
        const off = cents * 1723n - minor * 1000n;
        expect(2n * (off < 0n ? -off : off)).toBeLessThanOrEqual(1723n);
      }),
    );
  });
});
