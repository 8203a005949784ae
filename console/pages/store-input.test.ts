import { expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { PageError } from '../http/outcome.ts';
import { type Ask, KubernetesError } from '../kubernetes/client.ts';
import { input, inputDigest } from '../testing/subjects.ts';
import type { Visit } from '../visit.ts';
import { storeInput } from './store-input.ts';
import { secretOf } from './stored-inputs.ts';

/** The message about a value that was stored if the Assistant cannot be changed afterwards. */
async function told(failure: KubernetesError): Promise<unknown> {
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
      if (method === 'GET') return view;
      if (path.endsWith('/secrets')) return {};
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
