import { expect, it } from 'vitest';
import type { Visit } from '../visit.ts';
import type { Ask } from './client.ts';
import { runningManifest } from './running.ts';

it.each(['', 'no JSON', '{', 'null', '[]', '{}'])(
  'a running manifest that is %j is ignored',
  async (text) => {
    const volumes = [{ projected: { sources: [{ configMap: { name: 'post-manifest-1' } }] } }];
    const visit = {
      may: async () => true,
      ask: async ({ path }: Ask) =>
        path.includes('/deployments/')
          ? {
              metadata: { annotations: { 'platform.space/owner-uid': 'u' } },
              spec: { template: { spec: { volumes } } },
            }
          : { data: { 'manifest.json': text } },
    } as unknown as Visit;
    const capsule = { metadata: { name: 'household' }, status: { namespace: 'home-household-0a1b2c3d' } };
    const view = { metadata: { uid: 'u' }, spec: {}, status: { manifest: { id: 'post' } } } as never;
    const place = { is: 'known', capsule } as never;
    expect(await runningManifest(visit, place, view)).toEqual({ is: 'nothing' });
  },
);
