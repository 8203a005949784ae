import { Url } from '../html/url.ts';
import { PageError, Redirect } from '../http/outcome.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { MERGE } from '../kubernetes/record.ts';
import { type AssistantView, assistantPath } from '../kubernetes/space.ts';
import type { Route, Visit } from '../visit.ts';
import { digestOf, isApproved } from './approval-section.ts';
import { assistantOf } from './assistant.ts';
import { APPROVED, APPROVED_BY } from './timeline.ts';

export const approve: Route = {
  method: 'POST',
  path: '/capsules/:capsule/assistants/:assistant/approve',
  under: 'capsules',
  run: approveSeen,
};

const TRIES = 8;

/**
 * Approves the digest that the person saw; fails if the manifest has changed since. What else has changed does not matter:
 * the operator may write the status at any time, and a form that is sent twice finds its own approval.
 */
async function approveSeen(visit: Visit): Promise<Redirect> {
  for (let tries = 1; ; tries += 1) {
    const view = await assistantOf(visit);
    const { name } = view.metadata;
    const digest = digestOf(view);
    if (digest === undefined || visit.form.get('digest') !== digest)
      throw new PageError(
        409,
        'The manifest has changed',
        'It was changed after you opened the page, so nothing was approved. Review it again.',
      );
    try {
      // The name of who approved it first stays.
      if (!isApproved(view)) await approveVersion(visit, view, digest);
      return new Redirect(Url.path`/capsules/${view.spec.capsule ?? ''}/assistants/${name}`);
    } catch (error) {
      const isOlder = error instanceof KubernetesError && error.status === 409;
      if (!isOlder || tries === TRIES) throw error;
    }
  }
}

/** Names the version that was read, so that the API server refuses the patch after a change in between. */
function approveVersion(visit: Visit, { metadata }: AssistantView, digest: string): Promise<unknown> {
  const { name, resourceVersion } = metadata;
  return visit.ask({
    method: 'PATCH',
    path: assistantPath(visit.names.namespace, name),
    query: { fieldManager: 'space-console' },
    contentType: MERGE,
    body: {
      metadata: {
        resourceVersion,
        // An admission policy permits everybody to write only their own name there.
        annotations: { [APPROVED]: digest, [APPROVED_BY]: `${digest} ${visit.session.user}` },
      },
    },
  });
}
