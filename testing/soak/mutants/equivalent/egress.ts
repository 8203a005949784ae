import type { Equivalent } from './entry.ts';

const CLIENT_HELLO = 'brokers/egress/core/client-hello.ts';
const POLICIES = 'brokers/egress/policies/policies.ts';
const SCRUB = 'brokers/egress/core/scrub.ts';
const TARGET = 'brokers/egress/core/target.ts';

export const EGRESS: readonly Equivalent[] = [
  {
    file: 'brokers/egress/core/needles.ts',
    code: 'for (let from = 0, to = 0; from < hex.length; from += 2, to += 3) {',
    change: 'from < hex.length → from <= hex.length',
    reason: 'the last round writes behind the end of the buffer, which does nothing',
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
    reason: 'the held bytes are only moved to the front more often',
  },
  {
    file: SCRUB,
    code: 'if (to + bytes.length > held.length) {',
    change: 'to + bytes.length > held.length → to + bytes.length >= held.length',
    reason: 'the held bytes are only moved to the front more often',
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
    file: 'brokers/egress/data/scrubbers.ts',
    code: 'if (account !== undefined) account.bytes -= scrubber.bytes;',
    change: 'account !== undefined → true',
    reason: 'whoever has tables has an account: the comparison is for the compiler',
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
    reason: 'a text without escapes is decoded to itself',
  },
  {
    file: 'brokers/egress/core/spans.ts',
    code: 'if (last[0] <= start) {',
    change: 'last[0] <= start → last[0] < start',
    reason: 'the range that begins at the same place is removed, and the added range covers both',
  },
  {
    file: 'brokers/egress/core/route.ts',
    code: 'const parameters = all.exact.size === 0 ? [] : target.parameters.map(readParameter);',
    change: 'all.exact.size === 0 → false',
    reason: 'if no parameter selects a route, the parameters are only read in vain',
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
  {
    file: CLIENT_HELLO,
    code: "if (message !== length - 4) return { fault: message > length - 4 ? 'hello_fragmented' : 'hello_malformed' };",
    change: 'message > length - 4 → message >= length - 4',
    reason: 'the two values are never equal here',
  },
  {
    file: CLIENT_HELLO,
    code: "if (error instanceof RangeError) return { fault: 'hello_malformed' };",
    change: 'error instanceof RangeError → true',
    reason: 'nothing else is thrown',
  },
  {
    file: CLIENT_HELLO,
    code: 'throw error;',
    change: 'throw error; → ;',
    reason: 'nothing else is thrown',
  },
  {
    file: 'brokers/egress/core/search.ts',
    code: 'for (let last = bytes.length - 1; last > 0; last -= 1) {',
    change: 'last > 0 → last >= 0',
    reason: 'the first byte is only exchanged with itself',
  },
];
