import type { TunnelFault } from './problem.ts';

/** What the first bytes of a connection contain; `more` if they are incomplete. */
export type Hello = { readonly sni: string } | { readonly fault: TunnelFault } | 'more';

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
/** Encrypted ClientHello (RFC 9849 and its drafts), and the encrypted SNI before it. */
const ENCRYPTED = new Set([0xfe0d, 0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c, 0xffce]);
export const LONGEST_HELLO = 16 * 1024;

/**
 * Reads a TLS ClientHello from the beginning of a connection. It must be one handshake message in one record: TCP may
 * cut it anywhere, TLS may not, since a ClientHello in pieces is read differently by different inspectors.
 */
export function readClientHello(bytes: Buffer): Hello {
  const [type] = bytes;
  if (type === undefined) return 'more';
  if (type !== HANDSHAKE || (bytes.length > 1 && bytes[1] !== 3)) return { fault: 'not_tls' };
  if (bytes.length < 5) return 'more';
  const length = bytes.readUInt16BE(3);
  if (length > LONGEST_HELLO) return { fault: 'hello_too_large' };
  if (length < 4) return { fault: 'hello_fragmented' };
  if (bytes.length < 9) return 'more';
  if (bytes[5] !== CLIENT_HELLO) return { fault: 'hello_malformed' };
  const message = bytes.readUIntBE(6, 3);
  if (message !== length - 4) return { fault: message > length - 4 ? 'hello_fragmented' : 'hello_malformed' };
  if (bytes.length < 5 + length) return 'more';
  try {
    return readExtensions(new Reader(bytes.subarray(9, 5 + length)));
  } catch (error) {
    if (error instanceof RangeError) return { fault: 'hello_malformed' };
    throw error;
  }
}

const UNEXPECTED_MESSAGE = 10;
/** `unrecognized_name`, `illegal_parameter` and `decode_error` of RFC 8446. */
const ALERTS: Partial<Record<TunnelFault, number>> = {
  sni_mismatch: 112,
  ech_denied: 47,
  hello_malformed: 50,
};

/** The fatal alert that tells a TLS client why its connection ends. */
export function alertFor(fault: TunnelFault): Buffer {
  return Buffer.from([21, 3, 1, 0, 2, 2, ALERTS[fault] ?? UNEXPECTED_MESSAGE]);
}

function readExtensions(hello: Reader): Hello {
  hello.take(2 + 32); // version, random
  hello.take(hello.uint(1)); // session
  hello.take(hello.uint(2)); // cipher suites
  hello.take(hello.uint(1)); // compression
  if (hello.left === 0) return { fault: 'sni_mismatch' };
  const extensions = new Reader(hello.take(hello.uint(2)));
  if (hello.left > 0) return { fault: 'hello_malformed' };
  const seen = new Set<number>();
  let sni: string | undefined;
  while (extensions.left > 0) {
    const type = extensions.uint(2);
    const data = new Reader(extensions.take(extensions.uint(2)));
    if (seen.has(type)) return { fault: 'hello_malformed' };
    seen.add(type);
    if (ENCRYPTED.has(type)) return { fault: 'ech_denied' };
    if (type !== SERVER_NAME) continue;
    const names = new Reader(data.take(data.uint(2)));
    if (data.left > 0 || names.uint(1) !== 0) return { fault: 'hello_malformed' };
    sni = names.take(names.uint(2)).toString('latin1');
    if (names.left > 0) return { fault: 'hello_malformed' };
  }
  return sni === undefined ? { fault: 'sni_mismatch' } : { sni };
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  uint(size: number): number {
    return this.take(size).readUIntBE(0, size);
  }

  take(size: number): Buffer {
    if (this.left < size) throw new RangeError('cut short');
    const part = this.#bytes.subarray(this.#at, this.#at + size);
    this.#at += size;
    return part;
  }
}
