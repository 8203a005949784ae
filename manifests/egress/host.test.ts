import { expect, it } from 'vitest';
import { hostFault } from './host.ts';

it.each([
  'a.org',
  'api.bank.example.org',
  'a-1.b2.org',
  'xn--bcher-kva.org',
  `${'a'.repeat(63)}.org`,
  '1.2.3.4.org',
  '0x1.org',
  'a.o1',
])('%s is a host that a gateway can enforce exactly', (host) => {
  expect(hostFault(host)).toBeUndefined();
});

it.each([
  ['*.a.org', 'has a wildcard'],
  ['*', 'has a wildcard'],
  ['1.2.3.4', 'is an address, not a name'],
  ['1234', 'is an address, not a name'],
  ['[::1]', 'is an address, not a name'],
  ['a[b', 'is an address, not a name'],
  ['::1', 'is an address, not a name'],
  ['2001:DB8::a', 'is an address, not a name'],
  ['::ffff:1.2.3.4', 'is an address, not a name'],
  ['a.1', 'is an address, not a name'],
  ['a.0x1f', 'is an address, not a name'],
  ['a.0x', 'is an address, not a name'],
  ['a.org/b', 'is more than a name'],
  ['user@a.org', 'is more than a name'],
  ['a.org?b', 'is more than a name'],
  ['a.org#b', 'is more than a name'],
  ['a.org:443', 'names a port; only 443 is reached'],
  ['x::y', 'names a port; only 443 is reached'],
  ['x::1', 'names a port; only 443 is reached'],
  ['a::1x', 'names a port; only 443 is reached'],
  ['a.org.', 'ends with a dot'],
  ['A.org', 'is not in lower case'],
  ['a..org', 'is not a name of letters, digits and hyphens'],
  ['.org', 'is not a name of letters, digits and hyphens'],
  ['', 'is not a name of letters, digits and hyphens'],
  ['-a.org', 'is not a name of letters, digits and hyphens'],
  ['a-.org', 'is not a name of letters, digits and hyphens'],
  ['a_b.org', 'is not a name of letters, digits and hyphens'],
  ['bücher.org', 'is not a name of letters, digits and hyphens'],
  [' a.org', 'is not a name of letters, digits and hyphens'],
  [`${'a'.repeat(64)}.org`, 'is not a name of letters, digits and hyphens'],
  ['localhost', 'has a single label'],
  ['a.1b', 'has a last label that does not begin with a letter'],
  ['a.0xg', 'has a last label that does not begin with a letter'],
  ['a.alt', 'ends with .alt, which no public host does'],
  ['a.local', 'ends with .local, which no public host does'],
])('%s is refused as a host: it %s', (host, fault) => {
  expect(hostFault(host)).toBe(fault);
});
