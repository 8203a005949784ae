import { checkManifest } from '@space/manifests';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { yes } from '../conditions.ts';
import type { Assistant, Capsule } from '../kinds.ts';
import { claimedId } from '../stores.ts';
import { manifest } from '../testing/manifest.ts';
import { names } from '../testing/names.ts';
import { wholeAssistant, wholeCapsule } from '../trim.ts';
import { describeWorkload } from './identity.ts';
import { planAssistant } from './plan.ts';

const anything = fc.jsonValue({ maxDepth: 4 });
const spec = fc.oneof(
  anything,
  fc.record(
    {
      capsule: anything,
      image: anything,
      manifest: fc.oneof(anything, fc.constant(manifest('ledger')), fc.record({ platform: anything })),
      env: anything,
      storedInputs: anything,
      suspend: anything,
    },
    { requiredKeys: [] },
  ),
);

test('whatever an older schema stored, it is planned without a crash and runs only when it is valid', () => {
  fc.assert(
    fc.property(spec, anything, (assistantSpec, capsuleSpec) => {
      const metadata = { name: 'a', uid: 'u' };
      const assistant = wholeAssistant({ metadata, spec: assistantSpec } as unknown as Assistant);
      const capsule = wholeCapsule({ metadata, spec: capsuleSpec } as unknown as Capsule);
      const check = checkManifest(assistant.spec.manifest);
      claimedId(assistant);
      const workload = check.ok ? describeWorkload(names, assistant, check.manifest) : undefined;
      const { run, findings } = planAssistant({
        assistant,
        check,
        workload,
        capsule,
        sandbox: yes('SandboxAvailable', 'There is a sandbox.'),
        neighbours: [assistant],
        claim: { registered: undefined, rivals: [assistant] },
        inputsBound: yes('Ready', 'All stored inputs are bound.'),
        provisioned: false,
        objects: undefined,
      });
      if (!check.ok) expect(findings['Accepted']?.reason).toBe('ManifestInvalid');
      if (run) expect(findings['Accepted']?.status).toBe('True');
    }),
  );
});
