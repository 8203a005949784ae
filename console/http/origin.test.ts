import { describe, expect, test } from 'vitest';
import { Origins } from './origin.ts';

const origins = new Origins(['https://localhost:8443', 'https://console.example']);

test('a request is accepted if it names one of the console’s hosts, with the port if there is one', () => {
  for (const [host, address] of [
    ['localhost:8443', 'https://localhost:8443'],
    ['console.example', 'https://console.example'],
    ['localhost', undefined],
    ['console.example:443', undefined],
    ['evil.example', undefined],
    [undefined, undefined],
  ] as const) {
    const headers = host === undefined ? {} : { host };
    expect([origins.isOurs(headers), origins.of(headers)]).toEqual([address !== undefined, address]);
  }
});

describe('a form', () => {
  const [host, origin] = ['console.example', 'https://console.example'];
  test.each<[string, Parameters<Origins['isFromOurPage']>[0]]>([
    ['a browser that tells the origin alone', { host, origin }],
    ['a browser that tells the kind of site, too', { host, origin, 'sec-fetch-site': 'same-origin' }],
  ])('is accepted from %s', (_, headers) => {
    expect(origins.isFromOurPage(headers)).toBe(true);
  });

  test.each<[string, Parameters<Origins['isFromOurPage']>[0]]>([
    ['a page without an origin', { host }],
    ['a page without an origin, to a name that is not ours', { host: 'evil.example' }],
    ['nobody knows whom to nobody knows whom', {}],
    ['our origin to no host', { origin }],
    ['another origin', { host, origin: 'https://evil.example' }],
    ['the other one of our origins', { host, origin: 'https://localhost:8443' }],
    ['a page without TLS', { host, origin: 'http://console.example' }],
    ['a frame', { host, origin: 'null' }],
    ['a page of the same site', { host, origin, 'sec-fetch-site': 'same-site' }],
    ['a page of another site', { host, origin, 'sec-fetch-site': 'cross-site' }],
    ['our name of another', { host: 'evil.example', origin }],
  ])('is refused from %s', (_, headers) => {
    expect(origins.isFromOurPage(headers)).toBe(false);
  });
});
