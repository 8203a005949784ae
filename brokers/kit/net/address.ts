import { isIPv4, isIPv6 } from 'node:net';

/** An address as its 4 or 16 bytes. */
export type AddressBytes = readonly number[];

/** A block of addresses: those that agree with `bytes` in the first `bits` bits. */
export interface AddressBlock {
  readonly bytes: AddressBytes;
  readonly bits: number;
}

/**
 * Parses an address in the strict notations only: four decimal numbers, or IPv6 without a zone. Texts that only a C
 * library accepts (`0x7f.1`, `2130706433`, `[::1]`) give `undefined`.
 */
export function parseAddress(text: string): AddressBytes | undefined {
  if (isIPv4(text)) return text.split('.').map(Number);
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const [head = '', tail] = withoutDottedQuad(text).split('::');
  const left = groups(head);
  if (tail === undefined) return left.flatMap(twoBytes);
  const right = groups(tail);
  const gap = Array.from({ length: 8 - left.length - right.length }, () => 0);
  return [...left, ...gap, ...right].flatMap(twoBytes);
}

/** The IPv4 addresses as a socket of both families writes them, `::ffff:a.b.c.d`. */
export const MAPPED: AddressBlock = {
  bytes: [...Array<number>(10).fill(0), 0xff, 0xff, 0, 0, 0, 0],
  bits: 96,
};

/**
 * Parses `a.b.c.d/n` or `x:y::/n`; `undefined` for any other text, if bits after the prefix are set, and for IPv4 that is
 * written as IPv6: such a block would contain no address of IPv4, whatever its author means.
 */
export function parseBlock(text: string): AddressBlock | undefined {
  const [address = '', length, more] = text.split('/');
  const bytes = parseAddress(address);
  if (bytes === undefined || more !== undefined) return undefined;
  if (length !== undefined && !/^(?:0|[1-9][0-9]{0,2})$/.test(length)) return undefined;
  const bits = length === undefined ? bytes.length * 8 : Number(length);
  if (bits > bytes.length * 8 || contains(MAPPED, bytes)) return undefined;
  const block = { bytes, bits };
  return bytes.every((byte, index) => (byte & ~maskOf(block, index)) === 0) ? block : undefined;
}

export function contains(block: AddressBlock, address: AddressBytes): boolean {
  if (address.length !== block.bytes.length) return false;
  return address.every((byte, index) => (byte & maskOf(block, index)) === (block.bytes[index] ?? 0));
}

function maskOf({ bits }: AddressBlock, index: number): number {
  const covered = Math.min(8, Math.max(0, bits - index * 8));
  return (0xff << (8 - covered)) & 0xff;
}

function withoutDottedQuad(text: string): string {
  const start = text.lastIndexOf(':') + 1;
  const quad = text.slice(start);
  if (!quad.includes('.')) return text;
  const [a = 0, b = 0, c = 0, d = 0] = quad.split('.').map(Number);
  return `${text.slice(0, start)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

const groups = (text: string): number[] =>
  text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
const twoBytes = (group: number): number[] => [group >> 8, group & 0xff];
