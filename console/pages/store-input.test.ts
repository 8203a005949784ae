import { expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { PageError, Redirect } from '../http/outcome.ts';
import { type Ask, KubernetesError } from '../kubernetes/client.ts';
import { input, inputDigest } from '../testing/subjects.ts';
import type { Visit } from '../visit.ts';
import { storeInput } from './store-input.ts';
import { secretOf } from './stored-inputs.ts';

/**
 * What the person is told if the Assistant cannot be changed after a value was stored. `changed` is the Assistant after
 * the first attempt.
 */
async function told(
  failure: KubernetesError,
  { fails = 99, changed = {}, isHidden = false } = {},
): Promise<unknown> {
  let attempts = 0;
  const view = {
    metadata: { name: 'post', uid: 'u', resourceVersion: '1' },
    spec: { capsule: 'household', manifest: manifest('post', { stored_inputs: { bank: input() } }) },
  };
  const { name, key } = secretOf(view as never, 'bank');
  const form = new Map([
    ['value', 'S3cret-of-the-bank'],
    ['definition', inputDigest()],
    ['secret', `${name}/${key}`],
  ]);
  const visit = {
    names: { space: 'home', namespace: 'home' },
    params: { capsule: 'household', assistant: 'post', key: 'bank' },
    session: { user: 'mia' },
    form,
    now: () => new Date(0),
    ask: async ({ method = 'GET', path }: Ask) => {
      if (method === 'GET' && isHidden && attempts > 0) throw new KubernetesError(403, 'Forbidden', 'no get');
      if (method === 'GET') return { ...view, spec: { ...view.spec, ...(attempts > 0 ? changed : {}) } };
      if (path.endsWith('/secrets')) return {};
      attempts += 1;
      if (attempts > fails) return {};
      throw failure;
    },
  };
  return storeInput.run(visit as unknown as Visit).catch((error: unknown) => error);
}

it('a refused binding is reported with the rights that it requires', async () => {
  const error = await told(new KubernetesError(403, 'Forbidden', 'needs deploy'));
  expect(error).toMatchObject({ status: 403, title: 'Stored, but not bound', quoted: 'needs deploy' });
});

it.each([0, 500, 504])(
  'a binding without an answer of the API server (%s) is not reported as refused',
  async (status) => {
    const error = await told(new KubernetesError(status, 'Unreachable', 'it gave no answer'));
    expect(error).toBeInstanceOf(PageError);
    expect(error).toMatchObject({ status: 503, title: 'Stored, but perhaps not bound' });
    expect((error as PageError).advice).not.toContain('deploy');
  },
);

const older = new KubernetesError(409, 'Conflict', 'the object has been modified');

it('a binding that came between two writes of the operator is repeated', async () => {
  expect(await told(older, { fails: 2 })).toBeInstanceOf(Redirect);
});

it('a binding that always comes too late is not reported as a missing right', async () => {
  const error = await told(older);
  expect(error).toMatchObject({ status: 409, title: 'Stored, but not bound' });
  expect((error as PageError).advice).toContain('enter the value again');
  expect((error as PageError).advice).not.toContain('deploy');
});

it('a binding that a colleague made at the same moment counts', async () => {
  const storedInputs = { bank: { secretKeyRef: { name: 'household.post.bank', key: 'value' } } };
  expect(await told(older, { changed: { storedInputs } })).toBeInstanceOf(Redirect);
});

it('no refusal after the value was stored says that nothing was changed', async () => {
  const error = await told(older, { isHidden: true });
  expect(error).toMatchObject({ status: 403, title: 'Stored, but not bound', quoted: 'no get' });
});

it.each([
  { storedInputs: { bank: { secretKeyRef: { name: 'of-somebody', key: 'value' } } } },
  { manifest: manifest('post', { stored_inputs: { bank: input({ host: 'elsewhere.org' }) } }) },
])('a binding is not repeated once the input is another one (%#)', async (changed) => {
  const error = await told(older, { fails: 1, changed });
  expect(error).toMatchObject({ status: 409, title: 'Stored, but not bound' });
});
