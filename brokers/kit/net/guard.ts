import {
  type AddressBlock,
  type AddressBytes,
  contains,
  MAPPED,
  parseAddress,
  parseBlock,
} from './address.ts';

/** Decides which addresses a service may connect to on behalf of others. */
export interface AddressGuard {
  /** Whether a connection to this address (text without brackets or zone) may be opened. */
  permits(address: string): boolean;
}

export interface GuardOptions {
  /** Blocks that are always refused: the cluster's pods, Services and nodes. */
  readonly denied?: readonly string[];
  /** Blocks that are permitted though they are not public, except what `denied` contains. */
  readonly allowed?: readonly string[];
  /**
   * A network's own NAT64 prefixes (RFC 6052), beside the well-known one: an address in them counts as the IPv4 address
   * that it contains.
   */
  readonly nat64?: readonly string[];
}

/** A block in the configuration is wrong; its text is the operator's own and may be shown. */
export class AddressBlockError extends Error {
  constructor(text: string) {
    super(
      `"${text}" is not a block of addresses such as 10.0.0.0/8 or fd00::/8, with no bit set after its prefix, and IPv4 not written as IPv6`,
    );
    this.name = 'AddressBlockError';
  }
}

/** Special-purpose addresses by the registries of IANA, which no public host has, and one cloud's metadata server. */
const NOT_PUBLIC_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
].map(block);

/** In IPv6 only global unicast is public, except protocol assignments (with Teredo), documentation and 6to4. */
const PUBLIC_V6 = block('2000::/3');
const NOT_PUBLIC_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'].map(block);

/** Blocks whose last 32 bits are an IPv4 address to which the network may send the packet. */
const EMBEDDING = [MAPPED, ...['::/96', '::ffff:0:0:0/96', '64:ff9b::/96'].map(block)];

/** An IPv6-only cluster reaches IPv4 through NAT64; no other embedding has a public use. */
const NAT64 = block('64:ff9b::/96');

/** The prefix lengths of RFC 6052. */
const NAT64_BITS = new Set([32, 40, 48, 56, 64, 96]);

export const isNat64Prefix = (text: string): boolean => {
  const parsed = parseBlock(text);
  return parsed !== undefined && parsed.bytes.length === 16 && NAT64_BITS.has(parsed.bits);
};

/** @throws AddressBlockError for a block that cannot be meant. */
export function addressGuard({ denied = [], allowed = [], nat64 = [] }: GuardOptions = {}): AddressGuard {
  const ownNat64 = nat64.map((text) => {
    if (!isNat64Prefix(text)) throw new AddressBlockError(text);
    return block(text);
  });
  const deniedBlocks = denied.map(block);
  const allowedBlocks = allowed.map(block);
  const within = (blocks: readonly AddressBlock[], address: AddressBytes) =>
    blocks.some((candidate) => contains(candidate, address));

  function judge(address: AddressBytes): boolean {
    const translated = ownNat64.find((prefix) => contains(prefix, address));
    const embedded = translated === undefined ? embeddedIn(address) : behind(translated, address);
    if (within(deniedBlocks, address) || (embedded !== undefined && within(deniedBlocks, embedded)))
      return false;
    if (within(allowedBlocks, address)) return true;
    if (address.length === 4) return !within(NOT_PUBLIC_V4, address);
    if (translated !== undefined || contains(NAT64, address))
      return embedded !== undefined && judge(embedded);
    if (!contains(PUBLIC_V6, address) || within(NOT_PUBLIC_V6, address)) return false;
    // ISATAP: the owner of the prefix may send the packet to the IPv4 address in it.
    return embedded === undefined || judge(embedded);
  }

  return {
    permits(text) {
      const address = parseAddress(text);
      return address !== undefined && judge(address);
    },
  };
}

/** RFC 6052: the four bytes after the prefix, without the one that is always zero. */
const behind = ({ bits }: AddressBlock, address: AddressBytes): AddressBytes =>
  (bits === 96 ? address : address.toSpliced(8, 1)).slice(bits / 8, bits / 8 + 4);

/** The IPv4 address in an IPv6 address, if a standard defines one. */
function embeddedIn(address: AddressBytes): AddressBytes | undefined {
  if (address.length !== 16) return undefined;
  if (EMBEDDING.some((candidate) => contains(candidate, address))) return address.slice(12);
  if (contains(SIX_TO_FOUR, address)) return address.slice(2, 6);
  // Teredo contains the client's address inverted.
  if (contains(TEREDO, address)) return address.slice(12).map((byte) => byte ^ 0xff);
  const [, , , , , , , , u, zero, five, efe] = address;
  if ((u === 0 || u === 2) && zero === 0 && five === 0x5e && efe === 0xfe) return address.slice(12);
  return undefined;
}

const SIX_TO_FOUR = block('2002::/16');
const TEREDO = block('2001::/32');

function block(text: string): AddressBlock {
  const parsed = parseBlock(text);
  if (parsed === undefined) throw new AddressBlockError(text);
  return parsed;
}
