/** A person who was given one Capsule, by the Role that docs/operator.md tells to write. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Browser } from './testing/browser.ts';
import { startEnvironment, type TestEnvironment } from './testing/environment.ts';
import { condition, subjects } from './testing/subjects.ts';

let environment: TestEnvironment;
let mia: Browser;

beforeAll(async () => {
  environment = await startEnvironment();
  const made = subjects(environment);
  const waits = [condition('Ready', 'False', 'ImagePullFailed', 'Push the image.')];
  for (const name of ['household', 'studio']) {
    await made.capsule(name, {}, [condition('Ready', 'False', 'BrokerUnreachable', 'Start the broker.')]);
    await made.assistant(`of-${name}`, { capsule: name }, waits);
  }
  const group = { apiGroups: ['platform.space'] };
  const token = await environment.person('mia', [
    {
      ...group,
      resources: ['assistants'],
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'update', 'delete'],
    },
    {
      ...group,
      resources: ['capsules'],
      resourceNames: ['household'],
      verbs: ['get', 'patch', 'update', 'deploy', 'approve', 'rotate'],
    },
  ]);
  mia = await environment.signedInWith(token);
});
afterAll(() => environment?.close());

it('sees the Assistants that need repair, and that Capsules are not examined', async () => {
  const { status, text } = await mia.get('/');
  expect(status).toBe(200);
  expect(text).toContain('Assistant of-household Image cannot be pulled');
  expect(text).toContain('You may not list Capsules, so they are missing here');
  expect(text).not.toContain('Capsule household');
});

it('finds their Capsule among those of the Assistants', async () => {
  const { status, text, links } = await mia.get('/capsules');
  expect(status).toBe(200);
  expect(text).toContain('You may not list Capsules');
  expect(links).toContain('/capsules/household');
  expect(links).not.toContain('/capsules/studio');
  expect((await mia.get('/capsules/household')).status).toBe(200);
});
