import { expect, test } from 'vitest';
import { systemClock } from './runtime/clock.ts';
import { Queue } from './runtime/queue.ts';
import { makeStores } from './stores.ts';
import { connectTriggers } from './triggers.ts';

const capsule = (name: string, resourceVersion: string) => ({
  metadata: { name, namespace: 'home', uid: name, resourceVersion },
  spec: {},
});

test('news of the gate waits for what users change, and comes in its turn where pods must stop', async () => {
  const stores = makeStores();
  const queues = {
    capsules: new Queue({ clock: systemClock }),
    assistants: new Queue({ clock: systemClock }),
  };
  const triggers = connectTriggers('home', stores, queues);
  const next = async () => {
    const key = await queues.capsules.take();
    if (key !== undefined) queues.capsules.done(key);
    return key;
  };
  stores.capsules.replace([capsule('a', '1'), capsule('b', '2'), capsule('c', '3')]);

  triggers.everything('low');
  stores.capsules.set(capsule('c', '4'));
  expect([await next(), await next(), await next()]).toEqual(['home/c', 'home/a', 'home/b']);

  stores.capsules.set(capsule('c', '5'));
  triggers.everything('live');
  expect([await next(), await next(), await next()]).toEqual(['home/c', 'home/a', 'home/b']);
  expect(queues.capsules.depth).toBe(0);
  queues.capsules.close();
  queues.assistants.close();
});
