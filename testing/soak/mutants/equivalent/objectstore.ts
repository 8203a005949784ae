import type { Equivalent } from './entry.ts';

const GUARDED = 'brokers/objectstore/byok/credentials/guarded.ts';
const SIGNATURE = 'brokers/objectstore/api/s3/signature.ts';

export const OBJECTSTORE: readonly Equivalent[] = [
  {
    file: 'brokers/objectstore/byok/grants/verify.ts',
    code: "if (key instanceof Uint8Array) throw new Error('not a public key');",
    change: 'key instanceof Uint8Array → false',
    reason: 'only a shared secret is imported as bytes, and the schema lets none through',
  },
  {
    file: 'brokers/objectstore/byok/grants/verify.ts',
    code: "if (key instanceof Uint8Array) throw new Error('not a public key');",
    change: "throw new Error('not a public key'); → ;",
    reason: 'only a shared secret is imported as bytes, and the schema lets none through',
  },
  {
    file: SIGNATURE,
    code: 'if (accessKeyId === undefined || day === undefined || region === undefined) return undefined;',
    change:
      'accessKeyId === undefined || day === undefined || region === undefined → (accessKeyId === undefined || day === undefined)',
    reason: 'the pattern gives all three or none: the comparisons are for the compiler',
  },
  {
    file: SIGNATURE,
    code: 'if (accessKeyId === undefined || day === undefined || region === undefined) return undefined;',
    change: 'accessKeyId === undefined || day === undefined || region === undefined → (region === undefined)',
    reason: 'the pattern gives all three or none: the comparisons are for the compiler',
  },
  {
    file: SIGNATURE,
    code: 'if (accessKeyId === undefined || day === undefined || region === undefined) return undefined;',
    change: 'accessKeyId === undefined || day === undefined → (accessKeyId === undefined)',
    reason: 'the pattern gives all three or none: the comparisons are for the compiler',
  },
  {
    file: SIGNATURE,
    code: 'if (accessKeyId === undefined || day === undefined || region === undefined) return undefined;',
    change: 'accessKeyId === undefined || day === undefined → (day === undefined)',
    reason: 'the pattern gives all three or none: the comparisons are for the compiler',
  },
  {
    file: SIGNATURE,
    code: "const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];",
    change: '/^([^=]*)=?(.*)$/s → /([^=]*)=?(.*)$/s',
    reason: 'the pattern fits every text, so it is found at the beginning',
  },
  {
    file: SIGNATURE,
    code: "const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];",
    change: '/^([^=]*)=?(.*)$/s → /^([^=]*)=?(.*)/s',
    reason: 'its last part takes all that is left',
  },
  {
    file: 'brokers/objectstore/byok/grants/verify.ts',
    code: "if (key === undefined || Buffer.from(payload, 'base64url').toString('base64url') !== payload)",
    change:
      "key === undefined || Buffer.from(p….toString('base64url') !== payload → (Buffer.from(payload, 'base64url').toString('base64url') !== payload)",
    reason: 'without a key the library throws, which is the same refusal',
  },
  {
    file: GUARDED,
    code: 'allowH2: false,',
    change: 'false → true',
    reason: 'the handshake offers HTTP/1.1 alone',
  },
  {
    file: GUARDED,
    code: "deadline.addEventListener('abort', stop, { once: true });",
    change: 'true → false',
    reason: 'a signal is aborted once',
  },
  {
    file: GUARDED,
    code: "const why = error instanceof Error ? error.message : 'not blocks of addresses';",
    change: 'error instanceof Error → true',
    reason: 'nothing else is thrown: the comparison is for the compiler',
  },
  {
    file: 'brokers/objectstore/byok/custody/anchor.ts',
    code: "const known = anchor === 'unreadable' ? undefined : anchor;",
    change: "anchor === 'unreadable' → false",
    reason: 'a string has none of the members that are compared: the comparison is for the compiler',
  },
  {
    file: GUARDED,
    code: "tls.once('close', () => reject(new Error('closed during the handshake')));",
    change: "tls.once('close', () => reject(new…('closed during the handshake'))); → ;",
    reason: 'Node reports a connection that ends during the handshake by an error before the event close',
  },
  {
    file: SIGNATURE,
    code: "for (let at = value.indexOf('  '); at !== -1 && count <= MOST_SPACES; at = value.indexOf('  ', at + 2))",
    change: 'at !== -1 && count <= MOST_SPACES → (at !== -1)',
    reason: 'what is counted beyond the bound changes nothing, and the head of a request is bounded',
  },
];
