/** Addresses that no service connects to on somebody else's wish, and every way to write one into another. */

export const DENIED_V4 = [
  '0.0.0.0',
  '0.255.255.255',
  '10.0.0.1',
  '10.255.255.255',
  '100.64.0.1',
  '100.100.100.200',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.255.255',
  '168.63.129.16',
  '169.254.169.254',
  '169.254.170.2',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.192',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.0.1',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
];

export const DENIED_V6 = [
  '::',
  '::1',
  'fc00::1',
  'fd00:ec2::254',
  'fe80::1',
  'fec0::1',
  'ff02::1',
  '100::1',
  '2001:db8::1',
  '2001:2::1',
  '3fff::1',
  '5f00::1',
  '4000::1',
];

const hex = (address: string) =>
  address
    .split('.')
    .map((octet) => Number(octet).toString(16).padStart(2, '0'))
    .join('')
    .replace(/(.{4})(.{4})/, '$1:$2');
const inverted = (address: string) =>
  hex(
    address
      .split('.')
      .map((octet) => 255 - Number(octet))
      .join('.'),
  );

/** Every standard way to write an IPv4 address into an IPv6 one, in both notations. */
export const EMBEDDINGS: Readonly<Record<string, (address: string) => string>> = {
  'IPv4-mapped': (address) => `::ffff:${address}`,
  'IPv4-mapped, hexadecimal': (address) => `::ffff:${hex(address)}`,
  'IPv4-mapped, written out': (address) => `0:0:0:0:0:ffff:${hex(address)}`,
  'IPv4-compatible': (address) => `::${hex(address)}`,
  'IPv4-translated': (address) => `::ffff:0:${hex(address)}`,
  NAT64: (address) => `64:ff9b::${hex(address)}`,
  'NAT64, dotted': (address) => `64:ff9b::${address}`,
  'local NAT64': (address) => `64:ff9b:1::${hex(address)}`,
  '6to4': (address) => `2002:${hex(address)}::1`,
  'Teredo client': (address) => `2001:0:808:808:0:0:${inverted(address)}`,
  'Teredo server': (address) => `2001:0:${hex(address)}::1`,
  ISATAP: (address) => `2a00:1450:4001:81b:0:5efe:${hex(address)}`,
  'ISATAP, universal': (address) => `2a00:1450:4001:81b:200:5efe:${hex(address)}`,
};
