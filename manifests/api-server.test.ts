import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import { manifestSchema } from './derive/schemas.ts';
import { structural } from './derive/structural.ts';
import { checkAssistantSpec, checkCapsuleSpec, checkManifest } from './index.ts';
import { assistantSpec } from './rules/assistant.ts';
import { capsuleSpec } from './rules/capsule.ts';
import { manifest } from './rules/manifest.ts';
import { type ApiServerJudge, NAMESPACE, startJudge } from './testing/api-server.ts';
import { accepted } from './testing/arbitrary.ts';
import { edited, type Mutant, mutants } from './testing/mutation.ts';
import { largestManifest, sampleManifest } from './testing/samples.ts';
import { SENTENCES } from './testing/sentences.ts';

/** Another seed each day: a run can be repeated, and the runs of a year see other manifests. */
const SEED = Number(process.env['SEED'] ?? Math.floor(Date.now() / 86_400_000));
const AT_ONCE = 8;
/** `MANIFEST_CASES=5000` goes further. */
const CASES = Number(process.env['MANIFEST_CASES'] ?? 1_000);

const ajv = new Ajv2020({ strict: false }).compile(manifestSchema());
const assistant = (spec: unknown) => resource('Assistant', spec);
const capsule = (spec: unknown) => resource('Capsule', spec);
const holding = (value: unknown) =>
  assistant({ capsule: 'household', image: 'space/ledger:dev', manifest: value });
const resource = (kind: string, spec: unknown) => ({
  apiVersion: 'platform.space/v1',
  kind,
  metadata: { generateName: 'x-', namespace: NAMESPACE },
  spec,
});

let judge: ApiServerJudge;
beforeAll(async () => {
  judge = await startJudge();
});
afterAll(() => judge?.stop());

/** Does something for each item, a few at a time. */
async function forEach<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const item of rest) await act(item);
    }),
  );
}

const sample = <T>(arbitrary: fc.Arbitrary<T>, numRuns: number) =>
  fc.sample(arbitrary, { numRuns, seed: SEED });

describe('the API server', () => {
  it('accepts and refuses the examples of every sentence of the interface as our rules do', async () => {
    const wrong: string[] = [];
    await forEach(SENTENCES, async ({ says, manifest: value, broken }) => {
      const refusal = await judge.refusal(holding(value));
      if ((refusal === undefined) !== (broken === undefined)) wrong.push(`${says}: ${refusal}`);
      if (refusal !== undefined && !refusal.includes('spec.manifest'))
        wrong.push(`names no field: ${refusal}`);
    });
    expect(wrong).toEqual([]);
  }, 900_000);

  it(`agrees with zod and ajv on ${CASES} generated manifests (seed ${SEED})`, async () => {
    const fine = (value: unknown): Mutant => ({ how: 'fine', value });
    const cases = [
      ...sample(accepted(manifest).map(fine), CASES / 5),
      ...sample(mutants(manifest), (2 * CASES) / 5),
      ...sample(edited(manifest), (2 * CASES) / 5),
    ];
    const wrong: string[] = [];
    let refused = 0;
    await forEach(cases, async ({ how, value }) => {
      const refusal = await judge.refusal(holding(value));
      const verdicts = [checkManifest(value).ok, ajv(value), refusal === undefined];
      if (refusal !== undefined) refused += 1;
      if (new Set(verdicts).size > 1)
        wrong.push(`${how}: ours, ajv, server ${verdicts} ${refusal ?? JSON.stringify(value)}`);
    });
    expect(wrong).toEqual([]);
    // Both verdicts must be common, or the agreement would say nothing.
    expect(refused).toBeGreaterThan(0.4 * CASES);
    expect(refused).toBeLessThan(0.9 * CASES);
  }, 900_000);

  it('validates the rest of both specs as our rules do', async () => {
    const specs = [
      ...sample(accepted(capsuleSpec), 100).map((value) => ({ how: 'fine', value, kind: capsule })),
      ...sample(mutants(capsuleSpec), 200).map((one) => ({ ...one, kind: capsule })),
      ...sample(accepted(assistantSpec), 100).map((value) => ({ how: 'fine', value, kind: assistant })),
      ...sample(mutants(assistantSpec), 200).map((one) => ({ ...one, kind: assistant })),
    ];
    const wrong: string[] = [];
    await forEach(specs, async ({ how, value, kind }) => {
      // A spec that is null altogether is one that was not given: nothing is lost with it.
      if (value === null) return;
      const ours = (kind === capsule ? checkCapsuleSpec : checkAssistantSpec)(value).ok;
      const refusal = await judge.refusal(kind(value));
      if (ours !== (refusal === undefined))
        wrong.push(`${how}: ours ${ours}, server: ${refusal} ${JSON.stringify(value)}`);
    });
    expect(wrong).toEqual([]);
  }, 900_000);

  it.each(['EGRESS_URL', 'EGRESS_TOKEN', 'NODE_USE_ENV_PROXY', 'HTTPS_PROXY', 'INPUT_BANK_URL'])(
    'refuses a variable %s, which the platform sets, and names it',
    async (name) => {
      const env = [{ name, value: 'mine' }];
      const { spec } = holding(sampleManifest());
      expect(await judge.refusal(assistant({ ...(spec as object), env }))).toMatch(
        new RegExp(`spec\\.env\\[0\\]\\.name.*${name}`),
      );
    },
  );

  it.each([
    ['resources', { requests: {}, request: {} }],
    ['resources', { limits: null }],
    ['resources.requests', { requests: { cpus: 1 } }],
    ['resources.requests', { requests: { memory: null } }],
    ['resources.limits', { limits: { cpus: 1 } }],
    ['resources.limits', { limits: { memory: null } }],
  ])('refuses an unknown property or null in %s: %j', async (where, resources) => {
    const { spec } = holding(sampleManifest());
    expect(await judge.refusal(assistant({ ...(spec as object), resources }))).toContain(
      `spec.${where}: unknown property or null`,
    );
  });

  it.each([
    ['Household', /spec\.capsule in body should match '\^\[a-z\]/],
    ['house.hold', /spec\.capsule in body should match '\^\[a-z\]/],
    ['h'.repeat(41), /spec\.capsule: Too long: may not be more than 40/],
    ['postgres', /spec\.capsule: .*must not be a name that the platform keeps for itself/],
  ])('refuses an Assistant of a Capsule %s, as no Capsule can have that name', async (name, says) => {
    const { spec } = holding(sampleManifest());
    expect(await judge.refusal(assistant({ ...(spec as object), capsule: name }))).toMatch(says);
  });

  it('still changes and deletes an Assistant of such a Capsule that older rules accepted', async () => {
    const { client } = judge.server;
    const crd = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/assistants.platform.space';
    const path = `/apis/platform.space/v1/namespaces/${NAMESPACE}/assistants`;
    const rules = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/capsule';
    const patchRule = (value: unknown) =>
      client.call({
        method: 'PATCH',
        path: crd,
        body: [{ op: 'replace', path: rules, value }],
        contentType: 'application/json-patch+json',
      });
    const today = structural(assistantSpec.required.capsule);
    const { spec } = holding(sampleManifest());
    const made = (name: string) => ({
      ...assistant({ ...(spec as object), capsule: 'House.Hold' }),
      metadata: { name, finalizers: ['platform.space/assistant'] },
    });
    await patchRule({ type: 'string', minLength: 1, maxLength: 253 });
    await eventually(
      () =>
        client.call({ method: 'POST', path, body: made('older-name') }).then(
          () => true,
          () => false,
        ),
      { what: 'older rules' },
    );
    await patchRule(today);
    await eventually(async () => (await judge.refusal(made('newer-name'))) !== undefined, {
      what: 'the rules of today',
    });
    const patch = (body: unknown, more = '') =>
      client.call({
        method: 'PATCH',
        path: `${path}/older-name${more}`,
        body,
        contentType: 'application/merge-patch+json',
      });
    await patch({ spec: { suspend: true } });
    await patch({ status: { observedGeneration: 2 } }, '/status');
    await client.call({ method: 'DELETE', path: `${path}/older-name` });
    await patch({ metadata: { finalizers: null } });
  });

  it('refuses to move an Assistant to another Capsule or to give it another id', async () => {
    const { client } = judge.server;
    const path = `/apis/platform.space/v1/namespaces/${NAMESPACE}/assistants`;
    await client.call({
      method: 'POST',
      path,
      body: { ...holding(sampleManifest()), metadata: { name: 'x' } },
    });
    const patch = (body: unknown) =>
      client.call({ method: 'PATCH', path: `${path}/x`, body, contentType: 'application/merge-patch+json' });
    await expect(patch({ spec: { capsule: 'other' } })).rejects.toThrow(/spec\.capsule.*is immutable/);
    await expect(patch({ spec: { manifest: { platform: { id: 'other' } } } })).rejects.toThrow(
      /spec\.manifest\.platform\.id.*is immutable/,
    );
    await patch({ spec: { manifest: { platform: { version: '1.5.0' } } } });
    await patch({ metadata: { finalizers: ['platform.space/assistant'] } });
    await patch({ metadata: { finalizers: null } });
  });

  it.each<[string, unknown]>([
    ['null', { bank: null }],
    ['without a closed schema', { bank: { secretKeyRef: { name: 'x', key: 'y' }, extra: 1 } }],
    ['with a key that has more', { bank: { secretKeyRef: { name: 'x', key: 'y', extra: 1 } } }],
  ])('refuses a value of a stored input that is %s', async (_, storedInputs) => {
    const { spec } = holding(sampleManifest());
    expect(await judge.refusal(assistant({ ...(spec as object), storedInputs }))).toContain(
      'spec.storedInputs',
    );
  });

  it.each([
    ['spec.env[0].value', { env: [{ name: 'LOG_LEVEL', value: 'de\u0000bug' }] }],
    ['spec.command[0]', { command: ['\u0000'] }],
    ['spec.args[1]', { args: ['--port', '8080\u0000'] }],
  ])('refuses NUL in %s, since no container would get what comes after it', async (where, more) => {
    const { spec } = holding(sampleManifest());
    const refusal = await judge.refusal(assistant({ ...(spec as object), ...more }));
    expect(refusal).toContain(where);
    expect(refusal).toContain('must not contain a NUL character (U+0000)');
  });

  it.each(['a..b', 'a-.b', 'a.-b', '.a'])('refuses %s as the name of a Secret', async (name) => {
    const { spec } = holding(sampleManifest());
    const storedInputs = { bank: { secretKeyRef: { name, key: 'value' } } };
    expect(await judge.refusal(assistant({ ...(spec as object), storedInputs }))).toContain(
      'spec.storedInputs.bank.secretKeyRef.name',
    );
  });

  it.each(['capsules', 'assistants'])(
    'validates %s only in the namespace of its own Space',
    async (plural) => {
      const made = plural === 'capsules' ? capsule({}) : holding(sampleManifest());
      const body = { ...made, metadata: { name: 'x' }, spec: { ...(made.spec as object), unknown: 1 } };
      await judge.server.client.call({
        method: 'POST',
        path: `/apis/platform.space/v1/namespaces/kube-public/${plural}`,
        body,
        query: { dryRun: 'All', fieldValidation: 'Ignore' },
      });
    },
  );

  it.each(['capsules', 'assistants'])(
    'of objects that older rules accepted, %s, validates only changes of the spec',
    async (plural) => {
      const { client } = judge.server;
      const bindings = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings';
      const binding = `${bindings}/space-${plural}`;
      const path = `/apis/platform.space/v1/namespaces/${NAMESPACE}/${plural}`;
      const { spec } = await client.call<{ spec: object }>({ method: 'GET', path: binding });
      await client.call({ method: 'DELETE', path: binding });
      const made = plural === 'capsules' ? capsule({}) : holding(sampleManifest());
      const older = { ...made, metadata: { name: 'older' }, spec: { ...(made.spec as object), unknown: 1 } };
      const stored = () =>
        client.call({ method: 'POST', path, body: older, query: { fieldValidation: 'Ignore' } });
      await eventually(() => stored().then(() => true), { what: 'older rules' });
      await client.call({
        method: 'POST',
        path: bindings,
        body: { metadata: { name: `space-${plural}` }, spec },
      });
      const refused = async () =>
        (await judge.refusal({ ...older, metadata: { name: 'newer' } }))?.includes('unknown') ?? false;
      await eventually(refused, { what: 'the rules of today' });
      const body = { metadata: { labels: { looked: 'after' } } };
      const contentType = 'application/merge-patch+json';
      await client.call({
        method: 'PATCH',
        path: `${path}/older`,
        body,
        contentType,
        query: { dryRun: 'All' },
      });
    },
  );

  it('validates a server-side apply in the same way, without merging what two people applied', async () => {
    const path = `/apis/platform.space/v1/namespaces/${NAMESPACE}/assistants/applied`;
    const manifest = sampleManifest({ inputs: 1, routes: 1 });
    const apply = (fieldManager: string, value: unknown) =>
      judge.server.client.call<{ spec: { manifest: typeof manifest } }>({
        method: 'PATCH',
        path,
        query: { fieldManager, force: 'true', fieldValidation: 'Ignore' },
        body: { ...holding(value), metadata: { name: 'applied' } },
        contentType: 'application/apply-patch+yaml',
      });
    await expect(apply('one', { ...manifest, extra: 1 })).rejects.toThrow(
      /spec\.manifest: unknown property or null: extra/,
    );
    await expect(apply('one', { ...manifest, integrations: null })).rejects.toThrow(
      /unknown property or null: integrations/,
    );
    await apply('one', manifest);
    const { spec } = await apply('two', { ...manifest, network: { allowed_hosts: ['other.org'] } });
    expect(spec.manifest.network.allowed_hosts).toEqual(['other.org']);
    expect(spec.manifest.platform.creators).toEqual(manifest.platform.creators);
  });

  it('accepts a manifest of 1,000,000 bytes, which is our maximum', async () => {
    const largest = largestManifest();
    const room = 1_000_000 - Buffer.byteLength(JSON.stringify(largest));
    const filled = { ...largest, platform: { ...largest.platform, genesis: 'x'.repeat(room + 1) } };
    expect(checkManifest(filled).ok).toBe(true);
    const path = `/apis/platform.space/v1/namespaces/${NAMESPACE}/assistants`;
    const { client } = judge.server;
    await client.call({ method: 'POST', path, body: { ...holding(filled), metadata: { name: 'largest' } } });
    // What the operator does to every object: the comparison of old and new stays within its budget too.
    for (const finalizers of [['platform.space/assistant'], null]) {
      await client.call({
        method: 'PATCH',
        path: `${path}/largest`,
        body: { metadata: { finalizers } },
        contentType: 'application/merge-patch+json',
      });
    }
  });
});
