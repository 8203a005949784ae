import { checkManifest, manifestDigest } from '@space/manifests';
import { card, state } from '../html/parts.ts';
import { type Html, html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { AssistantView } from '../kubernetes/space.ts';
import { mayOn, postForm, type Visit } from '../visit.ts';
import { APPROVED, approver } from './timeline.ts';

/** Returns the digest of the manifest as the operator computes it; undefined if the manifest is invalid. */
export function digestOf(view: AssistantView): string | undefined {
  const checked = checkManifest(view.spec.manifest);
  return checked.ok ? `sha256:${manifestDigest(checked.manifest)}` : undefined;
}

/** Whether exactly the manifest on this page is approved. */
export const isApproved = (view: AssistantView): boolean => {
  const digest = digestOf(view);
  return digest !== undefined && view.metadata.annotations[APPROVED] === digest;
};

/**
 * Shows who approved the manifest on this page, or the form to approve it, which contains the digest of the shown
 * manifest.
 */
export async function approvalSection(visit: Visit, view: AssistantView): Promise<Html> {
  const { name, annotations } = view.metadata;
  const capsule = view.spec.capsule ?? '';
  const digest = digestOf(view);
  const shown = html`<p class="quiet">Digest of this manifest: <code>${digest}</code></p>`;
  if (isApproved(view)) return html`<p>${state('good', 'Approved')} ${approver(view.metadata)}</p>${shown}`;
  const before =
    annotations[APPROVED] === undefined
      ? 'It is not approved.'
      : 'Another manifest is approved, but not this one.';
  const counts = html`Approval is required in Capsules with <code>approval: manual</code>.`;
  if (!(await mayOn(visit, capsule, 'approve')))
    return html`<p>${before} People with the verb <code>approve</code> on the Capsule may approve it. ${counts}</p>${shown}`;
  const form = postForm(
    visit,
    Url.path`/capsules/${capsule}/assistants/${name}/approve`,
    html`<input type="hidden" name="digest" value="${digest}"><button>Approve exactly this manifest</button>`,
  );
  return card('notice', html`<p>${before} ${counts}</p>${shown}${form}`);
}
