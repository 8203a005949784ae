import { Url } from '../html/url.ts';
import { Redirect } from '../http/outcome.ts';
import { changeAndRecord } from '../kubernetes/record.ts';
import { assistantPath } from '../kubernetes/space.ts';
import type { Route } from '../visit.ts';
import { assistantOf } from './assistant.ts';

export const suspendAssistant = suspension('suspend', true);
export const resumeAssistant = suspension('resume', false);

function suspension(act: string, suspend: boolean): Route {
  return {
    method: 'POST',
    path: `/capsules/:capsule/assistants/:assistant/${act}`,
    under: 'capsules',
    async run(visit) {
      const { metadata, spec } = await assistantOf(visit);
      const path = assistantPath(visit.names.namespace, metadata.name);
      const doing = { act: suspend ? 'suspended' : 'resumed' } as const;
      await changeAndRecord(visit, path, doing, { spec: { suspend } });
      return new Redirect(Url.path`/capsules/${spec.capsule ?? ''}/assistants/${metadata.name}`);
    },
  };
}
