import { Url } from '../html/url.ts';
import { PageError, Redirect } from '../http/outcome.ts';
import { assistantPath } from '../kubernetes/space.ts';
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

/** Approves the digest that the person saw; fails if the manifest has changed since. */
async function approveSeen(visit: Visit): Promise<Redirect> {
  const view = await assistantOf(visit);
  const { name, resourceVersion } = view.metadata;
  const digest = digestOf(view);
  if (digest === undefined || visit.form.get('digest') !== digest)
    throw new PageError(
      409,
      'The manifest has changed',
      'It was changed after you opened the page, so nothing was approved. Review it again.',
    );
  const page = Url.path`/capsules/${view.spec.capsule ?? ''}/assistants/${name}`;
  // The name of who approved it first stays.
  if (isApproved(view)) return new Redirect(page);
  await visit.ask({
    method: 'PATCH',
    path: assistantPath(visit.names.namespace, name),
    query: { fieldManager: 'space-console' },
    contentType: 'application/merge-patch+json',
    // With the version that was read, so that the API server refuses the patch after a change in between.
    body: {
      metadata: {
        resourceVersion,
        // An admission policy permits everybody to write only their own name there.
        annotations: { [APPROVED]: digest, [APPROVED_BY]: `${digest} ${visit.session.user}` },
      },
    },
  });
  return new Redirect(page);
}
