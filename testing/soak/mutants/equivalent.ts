// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of sources
/** Mutants that no test can notice, each with the reason. A test holds that each of them still is one of its file. */
import type { AutomaticMutant } from './operators.ts';

interface Equivalent extends Pick<AutomaticMutant, 'file' | 'code' | 'change'> {
  readonly reason: string;
}

const CALLS = 'console/gateway/calls.ts';
const DIAL = 'brokers/kit/net/dial.ts';
const ENVELOPE = 'brokers/kit/custody/envelope.ts';
const GUARD = 'brokers/kit/net/guard.ts';
const GUARDED = 'brokers/objectstore/byok/credentials/guarded.ts';
const ORIGIN = 'console/http/origin.ts';
const POLICIES = 'brokers/egress/policies/policies.ts';
const PROBER = 'operator/sandbox/prober.ts';
const SCRUB = 'brokers/egress/core/scrub.ts';
const TARGET = 'brokers/egress/core/target.ts';
const TEMPLATE = 'console/html/template.ts';
const SIGNATURE = 'brokers/objectstore/api/s3/signature.ts';

export const EQUIVALENT: readonly Equivalent[] = [
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
    file: 'operator/sandbox/gate.ts',
    code: '(node) => !able.includes(node) && isCandidate(atItsBest(node), found, wanted),',
    change:
      '!able.includes(node) && isCandidate(atItsBest(node), found, wanted) → (isCandidate(atItsBest(node), found, wanted))',
    reason: 'nodes that rest are asked for only where no node is able, or where no able one has passed',
  },
  {
    file: 'operator/sandbox/gate.ts',
    code: '.sort((a, b) => (a.node < b.node ? -1 : 1));',
    change: 'a.node < b.node → a.node <= b.node',
    reason: 'no two nodes have one name',
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
    file: 'brokers/egress/core/needles.ts',
    code: 'for (let from = 0, to = 0; from < hex.length; from += 2, to += 3) {',
    change: 'from < hex.length → from <= hex.length',
    reason: 'the last round writes behind the end of the buffer, which does nothing',
  },
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
    file: SCRUB,
    code: 'const most = HELD_BACK.find((step) => step >= longest);',
    change: 'step >= longest → step > longest',
    reason: 'no step is a multiple of six, which every longest form is',
  },
  {
    file: SCRUB,
    code: 'if (spans.none) return text;',
    change: 'spans.none → false',
    reason: 'without stars the text is written again as it was',
  },
  {
    file: SCRUB,
    code: 'if (to + bytes.length > held.length) {',
    change: 'to + bytes.length > held.length → true',
    reason: 'what is held is only moved to the front more often',
  },
  {
    file: SCRUB,
    code: 'if (to + bytes.length > held.length) {',
    change: 'to + bytes.length > held.length → to + bytes.length >= held.length',
    reason: 'what is held is only moved to the front more often',
  },
  {
    file: SCRUB,
    code: 'chunk.copy(out, ofHeld, 0, count - ofHeld);',
    change: 'count - ofHeld → count + ofHeld',
    reason: 'no more is copied than there is room for',
  },
  {
    file: SCRUB,
    code: 'const earliest = Math.max(0, chunk.length - most);',
    change: 'max → min',
    reason:
      'this only looks further back than needed: no more than the most is held, and nothing is before a chunk',
  },
  {
    file: SCRUB,
    code: 'while (ending > earliest && run[chunk[ending - 1] as number] === 1) ending -= 1;',
    change:
      'ending > earliest && run[chunk[ending - 1] as number] === 1 → (run[chunk[ending - 1] as number] === 1)',
    reason:
      'this only looks further back than needed: no more than the most is held, and nothing is before a chunk',
  },
  {
    file: SCRUB,
    code: 'while (ending > earliest && run[chunk[ending - 1] as number] === 1) ending -= 1;',
    change: 'ending > earliest → ending >= earliest',
    reason:
      'this only looks further back than needed: no more than the most is held, and nothing is before a chunk',
  },
  {
    file: 'brokers/kit/tokens.ts',
    code: 'return token !== undefined && isToken(token, audience) ? new Secret(token) : undefined;',
    change: 'token !== undefined && isToken(token, audience) → (isToken(token, audience))',
    reason: 'a pattern reads what is not there as the text "undefined", which is no token',
  },
  {
    file: 'brokers/objectstore/objects/object-key.ts',
    code: "if (!raw.includes('%')) return raw;",
    change: "!raw.includes('%') → false",
    reason: 'a text without escapes is decoded to itself, only more slowly',
  },
  {
    file: POLICIES,
    code: 'if (current !== undefined && (this.#lastApplied.get(current) ?? 0) > at)',
    change:
      'current !== undefined && (this.#lastApplied.get(current) ?? 0) > at → ((this.#lastApplied.get(current) ?? 0) > at)',
    reason: 'nothing is kept under undefined: the comparison is for the compiler',
  },
  {
    file: POLICIES,
    code: 'if (current !== undefined && (this.#lastApplied.get(current) ?? 0) > at)',
    change: '(this.#lastApplied.get(current) ?? 0) > at → (this.#lastApplied.get(current) ?? 0) >= at',
    reason: 'no two messages have one number',
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
    file: 'brokers/egress/data/scrubbers.ts',
    code: 'if (account !== undefined) account.bytes -= scrubber.bytes;',
    change: 'account !== undefined → true',
    reason: 'whoever has tables has an account: the comparison is for the compiler',
  },
  {
    file: 'brokers/objectstore/byok/custody/anchor.ts',
    code: "const known = anchor === 'unreadable' ? undefined : anchor;",
    change: "anchor === 'unreadable' → false",
    reason: 'a text has none of the numbers: the comparison is for the compiler',
  },
  {
    file: 'operator/sandbox/network.ts',
    code: 'const open = walls.filter((wall) => wall.open).toSorted((a, b) => (a.node < b.node ? -1 : 1));',
    change: 'a.node < b.node → a.node <= b.node',
    reason: 'no two nodes have one name',
  },
  {
    file: GUARDED,
    code: "tls.once('close', () => reject(new Error('closed during the handshake')));",
    change: "tls.once('close', () => reject(new…('closed during the handshake'))); → ;",
    reason:
      'Node tells of a connection that ends during the handshake by an error, before it says that it is closed',
  },
  {
    file: PROBER,
    code: 'return act(context, plan, (operator) => node && probeObject(question, node, operator), signal);',
    change: 'node && probeObject(question, node, operator) → (probeObject(question, node, operator))',
    reason: 'none is made for a node that is gone: the operand is for the compiler',
  },
  {
    file: PROBER,
    code: 'if (pod) sightings.note(pod, change.now !== undefined && (isProbe(pod) || isOutside(pod)));',
    change: 'pod → true',
    reason: 'each change has a pod, before or now: the condition is for the compiler',
  },
  {
    file: PROBER,
    code: 'const node = probedNode(pod) ?? (pod && isOutside(pod) ? pod.spec?.nodeName : undefined);',
    change: 'pod && isOutside(pod) → (isOutside(pod))',
    reason: 'each change has a pod, before or now: the operand is for the compiler',
  },
  {
    file: 'brokers/kit/net/address.ts',
    code: "text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));",
    change: "text === '' → false",
    reason: 'nothing is read as one group of zeros then, and "::" stands for one at least',
  },
  {
    file: TEMPLATE,
    code: 'if (holes === undefined) {',
    change: 'holes === undefined → true',
    reason: 'the template is only read again each time',
  },
  {
    file: TEMPLATE,
    code: 'known.set(strings, holes);',
    change: 'known.set(strings, holes); → ;',
    reason: 'the template is only read again each time',
  },
  {
    file: 'console/html/visible.ts',
    code: 'if (text.length <= max) return text;',
    change: 'text.length <= max → text.length < max',
    reason: 'a text of exactly this length is counted, and shown whole',
  },
  {
    file: 'manifests/parse/json.ts',
    code: 'if (this.text.charCodeAt(end) === 0x22) {',
    change: 'this.text.charCodeAt(end) === 0x22 → false',
    reason: 'a string without escapes is read to the same text, only more slowly',
  },
  {
    file: TARGET,
    code: "if (key === undefined || path === undefined) return 'not-found';",
    change: 'key === undefined || path === undefined → (key === undefined)',
    reason: 'the pattern gives both or neither: the comparison is for the compiler',
  },
  {
    file: TARGET,
    code: "if (key === undefined || path === undefined) return 'not-found';",
    change: 'key === undefined || path === undefined → (path === undefined)',
    reason: 'the pattern gives both or neither: the comparison is for the compiler',
  },
  {
    file: TARGET,
    code: "if (!segment.includes('%')) return SEGMENT.test(segment) && isSeenAlike(segment);",
    change: "!segment.includes('%') → false",
    reason: 'a segment of ASCII without escapes is decoded and normalised to itself',
  },
  {
    file: TARGET,
    code: "if (!text.includes('%')) return text;",
    change: "!text.includes('%') → false",
    reason: 'what has no escapes is decoded to itself',
  },
  {
    file: CALLS,
    code: "url: `${protocol}//${host}${port === '' ? '' : `:${port}`}${path}`,",
    change: "port === '' → false",
    reason: 'an empty port is the usual one',
  },
  {
    file: CALLS,
    code: "return understood.kind === 'done' ? understood.value : undefined;",
    change: "understood.kind === 'done' → true",
    reason: 'only an answer has a value: the comparison is for the compiler',
  },
  {
    file: CALLS,
    code: "const addresses = await lookup(hostname.replace(/^\\[(.*)\\]$/, '$1')).catch(() => []);",
    change: '/^\\[(.*)\\]$/ → /\\[(.*)\\]$/',
    reason: 'the host of a URL has brackets around all of it, or none',
  },
  {
    file: CALLS,
    code: "const addresses = await lookup(hostname.replace(/^\\[(.*)\\]$/, '$1')).catch(() => []);",
    change: '/^\\[(.*)\\]$/ → /^\\[(.*)\\]/',
    reason: 'the host of a URL has brackets around all of it, or none',
  },
  {
    file: CALLS,
    code: 'const last = known !== undefined && known.last_at > last_at ? known.last_at : last_at;',
    change: 'known.last_at > last_at → known.last_at >= last_at',
    reason: 'of two equal times either is the last',
  },
  {
    file: PROBER,
    code: 'runtimeClass !== undefined && createdAt(pod) < createdAt(runtimeClass);',
    change:
      'runtimeClass !== undefined && createdAt(pod) < createdAt(runtimeClass) → (createdAt(pod) < createdAt(runtimeClass))',
    reason: 'without the class nothing is wanted, and nobody asks: the comparison is for the compiler',
  },
  {
    file: ORIGIN,
    code: 'return host !== undefined && this.#byHost.has(host);',
    change: 'host !== undefined && this.#byHost.has(host) → (this.#byHost.has(host))',
    reason: 'none of our hosts is undefined: the comparison is for the compiler',
  },
  {
    file: ORIGIN,
    code: 'return host === undefined ? undefined : this.#byHost.get(host);',
    change: 'host === undefined → false',
    reason: 'none of our hosts is undefined: the comparison is for the compiler',
  },
  {
    file: ORIGIN,
    code: 'if (host === undefined || origin === undefined) return false;',
    change: 'host === undefined || origin === undefined → (origin === undefined)',
    reason: 'none of our hosts is undefined, so that it has no address, and an origin is one',
  },
  {
    file: 'operator/sandbox/probe.ts',
    code: "if (probes.length === 0) return { verdict: 'untried' };",
    change: 'probes.length === 0 → false',
    reason: 'among no probes none is found, once its name was computed',
  },
  {
    file: 'brokers/egress/core/spans.ts',
    code: 'if (last[0] <= start) {',
    change: 'last[0] <= start → last[0] < start',
    reason: 'the range that begins at the same place is taken away, and the one that is added is the two',
  },
  {
    file: 'manifests/egress/parameter.ts',
    code: "if (!letters.includes('method')) return false;",
    change: "!letters.includes('method') → false",
    reason: 'no name without these letters is one of those that are looked for',
  },
  {
    file: 'manifests/egress/value.ts',
    code: '[/[^0-9a-zA-Z]/, 32],',
    change: '32 → nothing',
    reason: 'eight characters, one of them of these, always have forty bits, and no number is not less',
  },
  {
    file: 'console/html/visible.ts',
    code: 'if (text.length <= max) return text;',
    change: 'text.length <= max → false',
    reason: 'a text that is short enough is counted, and shown whole',
  },
  {
    file: 'console/session/session.ts',
    code: 'if (own !== undefined) this.#sessions.delete(own);',
    change: 'own !== undefined → true',
    reason: 'one is there, since there are too many: the comparison is for the compiler',
  },
  {
    file: 'manifests/egress/parameter.ts',
    code: 'if (/^[ -~]*$/.test(text)) return text.toLowerCase();',
    change: '/^[ -~]*$/.test(text) → false',
    reason: 'plain characters are their own in every normal form, only more slowly',
  },
  {
    file: 'brokers/kit/request-head.ts',
    code: 'for (let i = 0; i < rawHeaders.length; i += 2) {',
    change: 'i < rawHeaders.length → i <= rawHeaders.length',
    reason: 'behind the last name there is none',
  },
  {
    file: 'brokers/egress/core/route.ts',
    code: 'const parameters = all.exact.size === 0 ? [] : target.parameters.map(readParameter);',
    change: 'all.exact.size === 0 → false',
    reason: 'where no parameter selects a route, each is read for nothing',
  },
  {
    file: 'operator/assistant/inputs/entered.ts',
    code: 'if (base64 === undefined) return undefined;',
    change: 'base64 === undefined → false',
    reason: 'nothing cannot be decoded either: the comparison is for the compiler',
  },
  {
    file: TARGET,
    code: 'if (!SEGMENT.test(segment) || UNRESERVED_ESCAPE.test(segment) || DANGEROUS_ESCAPE.test(segment))',
    change:
      '!SEGMENT.test(segment) || UNRESERV… || DANGEROUS_ESCAPE.test(segment) → (!SEGMENT.test(segment) || UNRESERVED_ESCAPE.test(segment))',
    reason: 'what these escapes stand for is refused again once they are decoded',
  },
  {
    file: TARGET,
    code: "const value = equals < 0 ? '' : pair.slice(equals + 1);",
    change: 'equals < 0 → equals <= 0',
    reason: 'a parameter without a name is refused, whatever its value',
  },
];

export const isOf = (one: Equivalent, mutant: AutomaticMutant): boolean =>
  one.file === mutant.file && one.code === mutant.code && one.change === mutant.change;

export const isEquivalent = (mutant: AutomaticMutant): boolean => EQUIVALENT.some((one) => isOf(one, mutant));
