// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of sources
import type { Equivalent } from './entry.ts';

const DIAL = 'brokers/kit/net/dial.ts';
const ENVELOPE = 'brokers/kit/custody/envelope.ts';
const GUARD = 'brokers/kit/net/guard.ts';

export const KIT: readonly Equivalent[] = [
  {
    file: GUARD,
    code: 'return embedded !== undefined && judge(embedded);',
    change: 'embedded !== undefined && judge(embedded) → (judge(embedded))',
    reason: 'an address behind NAT64 always has an IPv4 address in it: the comparison is for the compiler',
  },
  {
    file: GUARD,
    code: 'if (address.length !== 16) return undefined;',
    change: 'address.length !== 16 → false',
    reason:
      'no IPv4 address is in a block of IPv6, and it has no ninth byte: nothing is found in it either way',
  },
  {
    file: 'brokers/kit/tokens.ts',
    code: 'for (let i = 0; i + 1 < rawHeaders.length; i += 2) {',
    change: 'i + 1 < rawHeaders.length → i + 1 <= rawHeaders.length',
    reason: 'Node gives names and values in pairs, and behind the last there is nothing',
  },
  {
    file: 'brokers/kit/tokens.ts',
    code: 'for (let i = 0; i + 1 < rawHeaders.length; i += 2) {',
    change: 'i + 1 → i - 1',
    reason: 'the same: this only looks behind the last pair',
  },
  {
    file: ENVELOPE,
    code: "if (!jwe.startsWith(`${header.encoded}.`)) throw new Error('the header is not the one that was given');",
    change: '!jwe.startsWith(`${header.encoded}.`) → false',
    reason: 'the library that makes envelopes adds nothing to the header today',
  },
  {
    file: ENVELOPE,
    code: "if (!jwe.startsWith(`${header.encoded}.`)) throw new Error('the header is not the one that was given');",
    change: "throw new Error('the header is not the one that was given'); → ;",
    reason: 'the library that makes envelopes adds nothing to the header today',
  },
  {
    file: ENVELOPE,
    code: 'if (known?.keyring !== keyring) {',
    change: 'known?.keyring !== keyring → true',
    reason: 'the key is only derived again each time, and is the same',
  },
  {
    file: ENVELOPE,
    code: "if (!keyring.has(kid)) throw new EnvelopeError('unknown_key');",
    change: '!keyring.has(kid) → false',
    reason: 'the key is derived next, and a ring without it is refused there in the same words',
  },
  {
    file: ENVELOPE,
    code: "if (!keyring.has(kid)) throw new EnvelopeError('unknown_key');",
    change: "throw new EnvelopeError('unknown_key'); → ;",
    reason: 'the key is derived next, and a ring without it is refused there in the same words',
  },
  {
    file: ENVELOPE,
    code: "const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part;",
    change: "typeof part === 'string' → true",
    reason: 'a copy of bytes is the same bytes, whatever encoding is named',
  },
  {
    file: 'brokers/kit/tokens.ts',
    code: 'return token !== undefined && isToken(token, audience) ? new Secret(token) : undefined;',
    change: 'token !== undefined && isToken(token, audience) → (isToken(token, audience))',
    reason: 'a pattern reads what is not there as the text "undefined", which is no token',
  },
  {
    file: 'brokers/kit/connections-by-address.ts',
    code: "const address = text.replace(/%.*$/, '').replace(/^::ffff:(?=[0-9.]+$)/i, '');",
    change: '/%.*$/ → /%.*/',
    reason: 'the pattern takes all that is left, and no address has a line end',
  },
  {
    file: 'brokers/kit/custody/keyring.ts',
    code: "if (typeof primary !== 'string' || !material.has(primary))",
    change: "typeof primary !== 'string' || !material.has(primary) → (!material.has(primary))",
    reason: 'ids are texts, so that nothing else is one of them: the comparison is for the compiler',
  },
  {
    file: DIAL,
    code: 'if (!(error instanceof DialError) || signal?.aborted) throw error;',
    change: '!(error instanceof DialError) || signal?.aborted → (signal?.aborted)',
    reason: 'whatever else is thrown is the reason of the signal: the comparison is for the compiler',
  },
  {
    file: DIAL,
    code: 'const socket = connect({ host, port, autoSelectFamily: false });',
    change: 'false → true',
    reason: 'the host is an address, which has one family',
  },
  {
    file: DIAL,
    code: "signal?.addEventListener('abort', abort, { once: true });",
    change: 'true → false',
    reason: 'a signal is aborted once',
  },
  {
    file: DIAL,
    code: "socket.off('error', fail);",
    change: "socket.off('error', fail); → ;",
    reason: 'a promise that is resolved is not rejected any more',
  },
  {
    file: DIAL,
    code: 'return x !== undefined && y !== undefined && x.join() === y.join();',
    change: 'x !== undefined && y !== undefined → (x !== undefined)',
    reason: 'only addresses are tried: the comparison is for the compiler',
  },
  {
    file: 'brokers/kit/net/address.ts',
    code: "text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));",
    change: "text === '' → false",
    reason: 'an empty text is then read as one group of zeros, and "::" stands for at least one',
  },
  {
    file: 'brokers/kit/request-head.ts',
    code: 'for (let i = 0; i < rawHeaders.length; i += 2) {',
    change: 'i < rawHeaders.length → i <= rawHeaders.length',
    reason: 'there is no name after the last one',
  },
  {
    file: 'brokers/kit/control/edge.ts',
    code: "if (line === undefined) throw new Error('request did not come through the listener');",
    change: 'line === undefined → false',
    reason: 'the next step fails without a line, and is reported as the same error',
  },
  {
    file: 'brokers/kit/control/edge.ts',
    code: "if (line === undefined) throw new Error('request did not come through the listener');",
    change: "throw new Error('request did not come through the listener'); → ;",
    reason: 'the next step fails without a line, and is reported as the same error',
  },
];
