import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DENIED_V4, DENIED_V6, EMBEDDINGS } from '../testing/addresses.ts';
import { AddressBlockError, addressGuard } from './guard.ts';

const guard = addressGuard();

const PUBLIC_V4 = [
  '1.1.1.1',
  '8.8.8.8',
  '100.63.255.255',
  '100.128.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '192.0.1.1',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
];

describe('the address guard', () => {
  it.each([
    // RFC 6052, section 2.4, for 192.0.2.33; the same for 93.184.216.34.
    ['2001:db8::/32', '2001:db8:c000:221::', '2001:db8:5db8:d822::'],
    ['2001:db8:100::/40', '2001:db8:1c0:2:21::', '2001:db8:15d:b8d8:22::'],
    ['2001:db8:122::/48', '2001:db8:122:c000:2:2100::', '2001:db8:122:5db8:d8:2200::'],
    ['2001:db8:122:300::/56', '2001:db8:122:3c0:0:221::', '2001:db8:122:35d:b8:d822::'],
    ['2001:db8:122:344::/64', '2001:db8:122:344:c0:2:2100::', '2001:db8:122:344:5d:b8d8:2200::'],
    ['2001:db8:122:344::/96', '2001:db8:122:344::192.0.2.33', '2001:db8:122:344::93.184.216.34'],
  ])(
    'judges an address in a network’s own NAT64 prefix %s by the IPv4 address in it',
    (prefix, inside, public_) => {
      const own = addressGuard({ nat64: [prefix] });
      expect([own.permits(inside), own.permits(public_)]).toEqual([false, true]);
    },
  );

  it.each(['10.0.0.0/8', '10.0.0.1/32', '2001:db8::/33', 'x'])('refuses %s as a NAT64 prefix', (prefix) =>
    expect(() => addressGuard({ nat64: [prefix] })).toThrow('is not a block'),
  );

  it.each(DENIED_V4)('refuses %s, and everything that embeds it', (address) => {
    expect(guard.permits(address)).toBe(false);
    for (const [name, embed] of Object.entries(EMBEDDINGS))
      expect([name, guard.permits(embed(address))]).toEqual([name, false]);
  });

  it.each(PUBLIC_V4)('permits %s, also behind NAT64 and ISATAP, and in no other embedding', (address) => {
    expect(guard.permits(address)).toBe(true);
    const permitted = Object.entries(EMBEDDINGS).filter(([, embed]) => guard.permits(embed(address)));
    expect(permitted.map(([name]) => name)).toEqual([
      'NAT64',
      'NAT64, dotted',
      'ISATAP',
      'ISATAP, universal',
    ]);
  });

  it.each(DENIED_V6)('refuses %s', (address) => expect(guard.permits(address)).toBe(false));

  it.each(['2606:4700:4700::1111', '2a00:1450:4001:81b::200e', '2001:4860:4860::8888', '2620:fe::fe'])(
    'permits %s',
    (address) => expect(guard.permits(address)).toBe(true),
  );

  it.each([
    'localhost',
    '0x7f.1',
    '2130706433',
    '017700000001',
    '[::1]',
    '::1%lo',
    '',
    '127.0.0.1:80',
    '８.８.８.８',
  ])('refuses %j, which is not an address', (text) => expect(guard.permits(text)).toBe(false));

  it('refuses the cluster’s own blocks, in every embedding, even where they are public or allowed', () => {
    const own = addressGuard({
      denied: ['8.8.0.0/16', '2a00:1450::/32'],
      allowed: ['8.8.8.0/24', '203.0.113.0/24'],
    });
    expect(own.permits('8.8.8.8')).toBe(false);
    expect(own.permits('64:ff9b::808:808')).toBe(false);
    expect(own.permits('2a00:1450::1')).toBe(false);
    expect(own.permits('203.0.113.10')).toBe(true);
    expect(own.permits('198.51.100.1')).toBe(false);
    expect(own.permits('8.9.0.1')).toBe(true);
  });

  it('refuses a denied IPv4 address inside a block of IPv6 that is allowed', () => {
    const own = addressGuard({ denied: ['8.8.0.0/16'], allowed: ['64:ff9b::/96', '2a00:1450::/32'] });
    expect(own.permits('64:ff9b::808:808')).toBe(false);
    expect(own.permits('64:ff9b::809:808')).toBe(true);
    expect(own.permits('2a00:1450::5efe:808:808')).toBe(false);
    expect(own.permits('2a00:1450::5efe:809:808')).toBe(true);
  });

  // A network's local NAT64 is known where it is named, and what a Teredo address leads to is its client.
  const known = Object.entries(EMBEDDINGS).filter(([name]) => !/^(local NAT64|Teredo server)$/.test(name));

  it.each(known)(
    'refuses a denied IPv4 address in the embedding %s even where all of IPv6 is allowed',
    (_, embed) => {
      const own = addressGuard({ denied: ['8.8.0.0/16'], allowed: ['::/0'] });
      expect([own.permits(embed('8.8.8.8')), own.permits(embed('8.9.8.8'))]).toEqual([false, true]);
    },
  );

  it.each(['100:5efe', '2ff:5efe', 'ff:5efe', '0:5dfe', '0:5eff'])(
    'permits a public IPv6 address with %s, which is not what ISATAP has, before a private IPv4 address',
    (almost) => expect(guard.permits(`2a00:1450:4001:81b:${almost}:10.0.0.1`)).toBe(true),
  );

  it.each(['denied', 'allowed', 'nat64'])(
    'names a block in %s that is invalid, also one of IPv4 written as IPv6',
    (key) => {
      for (const text of ['10.0.0.1/8', '::ffff:8.8.0.0/112', '::ffff:0:0/96']) {
        const wrong = () => addressGuard({ [key]: [text] });
        expect(wrong).toThrow(AddressBlockError);
        expect(wrong).toThrow(`"${text}" is not a block`);
      }
    },
  );

  it('permits no IPv6 outside global unicast except NAT64', () => {
    const group = fc.integer({ min: 0, max: 0xffff });
    const outside = fc
      .integer({ min: 0, max: 0xffff })
      .filter((first) => first >> 13 !== 1 && first !== 0x64);
    fc.assert(
      fc.property(outside, fc.array(group, { minLength: 7, maxLength: 7 }), (first, rest) => {
        const text = [first, ...rest].map((value) => value.toString(16)).join(':');
        expect(guard.permits(text)).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });
});
