import { Secret } from '@space/contracts/secret';
import { type Definition, definitionDigest } from '@space/manifests';
import { expect, test } from 'vitest';
import { Fingerprints } from './fingerprint.ts';
import { judgeInputs } from './judge.ts';
import { ensureSealed, keepResealed } from './seal.ts';
import { readSealed, type SealedInput, writeSealed } from './sealed.ts';

const definition: Definition = {
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/accounts' }],
  header: 'Authorization',
};
const another: Definition = { ...definition, host: 'api.other.org' };
const sealed = (changes: Partial<SealedInput> = {}): SealedInput => ({
  envelope: 'e',
  definition: definitionDigest(definition),
  source: 'u/1',
  ...changes,
});

test('an input that its host returned stays disabled while the manifest does not name it', async () => {
  let written: Record<string, string | null> = {};
  const context = {
    names: { space: 'home', systemNamespace: 'home-system' },
    fingerprints: new Fingerprints(),
    gateways: { seal: async () => 'new' },
    writer: {
      merge: async (_: unknown, __: unknown, patch: { data: typeof written }) => {
        written = patch.data;
      },
    },
  };
  const workload = {
    assistant: { metadata: { name: 'a', uid: 'u' }, spec: { capsule: 'home' } },
    manifest: { platform: { id: 'a' } },
    egress: { policy: { inputs: { other: definition } } },
  };
  const inputs = { bank: sealed({ reflected: true }), gone: sealed() };
  const data = { bank: 'e', 'bank.reflected': 'e', gone: 'e' };
  const secret = { metadata: { name: 's', annotations: { 'platform.space/owner-uid': 'u' } }, data };
  const other = {
    ...{ secret: 'other', uid: 'v', resourceVersion: '1', entry: undefined },
    value: new Secret('S3cret-of-another'),
  };
  const known = {
    entered: { values: new Map([['other', other]]), problems: new Map() },
    sealed: { secret, inputs },
  };
  const usable = await ensureSealed(
    context as never,
    workload as never,
    known as never,
    new AbortController().signal,
  );
  expect(usable).toEqual({ other: 'new' });
  const text = (key: string) => Buffer.from(written[key] ?? '', 'base64').toString();
  expect(text('bank.reflected')).toBe('true');
  // Of neither there is a value any more.
  for (const key of ['bank', 'gone']) expect([written[key], text(`${key}.withdrawn`)]).toEqual(['', 'true']);
  // Named again, it is not used.
  const stored = { client: { call: async () => ({ ...secret, data: written }) }, names: context.names };
  const left = await readSealed(
    stored as never,
    workload.assistant as never,
    'a',
    new AbortController().signal,
  );
  const again = judgeInputs({ entered: { values: new Map(), problems: new Map() }, sealed: left } as never, {
    bank: definition,
  });
  expect(again.reason).toBe('InputReflected');
});

test('an envelope that the gateway sealed again brings back none that the same pass withdrew', async () => {
  let stored: Record<string, string | null> = { bank: 'ZQ==', gone: 'ZQ==' };
  const context = {
    names: { space: 'home', systemNamespace: 'home-system' },
    fingerprints: new Fingerprints(),
    writer: {
      merge: async (_: unknown, __: unknown, { data }: { data: typeof stored }) => {
        stored = { ...stored, ...data };
      },
    },
  };
  const workload = {
    assistant: { metadata: { name: 'a', uid: 'u' }, spec: { capsule: 'home' } },
    manifest: { platform: { id: 'a' } },
    egress: { policy: { inputs: { bank: definition } } },
  };
  const metadata = { name: 's', annotations: { 'platform.space/owner-uid': 'u' } };
  const known = {
    entered: { values: new Map(), problems: new Map() },
    sealed: { secret: { metadata, data: stored }, inputs: { bank: sealed(), gone: sealed() } },
  };
  const { signal } = new AbortController();
  const sent = await ensureSealed(context as never, workload as never, known as never, signal);
  const again = { sealed: known.sealed, sent, resealed: { bank: 'new' } };
  await keepResealed(context as never, workload as never, again as never, signal);
  const text = (key: string) => Buffer.from(stored[key] ?? '', 'base64').toString();
  expect([text('bank'), text('gone'), text('gone.withdrawn')]).toEqual(['new', '', 'true']);
});

test('of more inputs than are remembered, a value comes back only if its Secret says that it is for this', async () => {
  const names = { space: 'home', systemNamespace: 'home-system' };
  const assistant = { metadata: { name: 'a', uid: 'u' }, spec: { capsule: 'home' } };
  const metadata = { name: 's', annotations: { 'platform.space/owner-uid': 'u' } };
  const encode = (text: string) => Buffer.from(text).toString('base64');
  const many = Array.from({ length: 40 }, (_, index) => `bank-${index}`);
  let data: Record<string, string> = Object.fromEntries(
    many.flatMap((key) =>
      Object.entries(sealed()).map(([part, text]) => [
        part === 'envelope' ? key : `${key}.${part}`,
        encode(String(text)),
      ]),
    ),
  );
  data = { ...data, 'bank-39.reflected': encode('true') };
  const context = {
    names,
    fingerprints: new Fingerprints(),
    client: { call: async () => ({ metadata, data }) },
    writer: {
      merge: async (_: unknown, __: unknown, patch: { data: Record<string, string | null> }) => {
        const merged = Object.entries({ ...data, ...patch.data });
        data = Object.fromEntries(merged.flatMap(([key, text]) => (text === null ? [] : [[key, text]])));
      },
    },
  };
  const { signal } = new AbortController();
  const read = () => readSealed(context as never, assistant as never, 'a', signal);
  const nothing = { values: new Map(), problems: new Map() };
  const workload = {
    ...{ assistant, manifest: { platform: { id: 'a' } } },
    egress: { policy: { inputs: { 'bank-0': definition } } },
  };
  const known = { entered: nothing, sealed: await read() };
  await ensureSealed(context as never, workload as never, known, signal);
  // A later write, which forgets no more, goes on to say that something is forgotten.
  await writeSealed(context as never, workload as never, await read(), signal);
  const kept = Object.keys((await read()).inputs);
  const [lost = ''] = many.filter((key) => !kept.includes(key));
  const verdict = async (key: string, entry: string | undefined) => {
    const value = {
      secret: key,
      uid: 'u',
      resourceVersion: '1',
      entry,
      value: new Secret('S3cret-of-banks'),
    };
    const entered = { values: new Map([[key, value]]), problems: new Map() };
    return judgeInputs({ entered, sealed: await read() } as never, { [key]: another }).reason;
  };
  expect(await verdict('bank-1', undefined)).toBe('InputNeedsReentry');
  expect(await verdict(lost, undefined)).toBe('InputNeedsReentry');
  expect(await verdict(lost, definitionDigest(definition))).toBe('InputNeedsReentry');
  expect(await verdict(lost, definitionDigest(another))).toBe('Ready');
  expect(kept.length).toBe(34);
  expect(kept).toContain('bank-39');
});
