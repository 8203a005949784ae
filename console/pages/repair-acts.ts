import { type Html, html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { getCapsule } from '../kubernetes/space.ts';
import { postForm, type Visit } from '../visit.ts';
import { quotaForm } from './quota-form.ts';
import type { Trouble } from './troubles.ts';

/** The button, link or form of an act; the first one of a page is emphasised. */
type Act = (isFirst: boolean) => Html;

const INPUT_REASONS = new Set([
  'InputsMissing',
  'InputSecretNotFound',
  'InputSecretRefused',
  'InputInvalid',
  'InputNeedsReentry',
  'InputReflected',
]);

/** The act that repairs the problem, if there is one and the person may do it. */
export async function actOf(visit: Visit, trouble: Trouble): Promise<Act | undefined> {
  const { kind, name, capsule, reason } = trouble;
  if (kind !== 'Capsule' && kind !== 'Assistant') return undefined;
  const place =
    kind === 'Capsule' ? Url.path`/capsules/${name}` : Url.path`/capsules/${capsule}/assistants/${name}`;
  if (reason === 'Suspended' && (await onCapsule(visit, capsule, kind === 'Capsule' ? 'patch' : 'deploy')))
    return () =>
      resume(
        visit,
        kind === 'Capsule'
          ? Url.path`/capsules/${name}/resume`
          : Url.path`/capsules/${capsule}/assistants/${name}/resume`,
      );
  if (reason === 'QuotaExceeded') return raise(visit, kind, capsule);
  if (kind === 'Capsule') return undefined;
  if (reason === 'ApprovalMissing' && (await onCapsule(visit, capsule, 'approve')))
    return link(place, 'Review what it may do, and approve');
  const mayEnter = { resource: 'secrets', namespace: visit.names.namespace, verb: 'create' };
  if (INPUT_REASONS.has(reason) && (await visit.may(mayEnter)))
    return link(Url.path`/capsules/${capsule}/assistants/${name}#stored-inputs`, 'Enter the stored input');
  return undefined;
}

/** The right for all Capsules is checked once instead of fifty times. It decides only what is shown. */
async function onCapsule({ may, names }: Visit, capsule: string, verb: string): Promise<boolean> {
  const onAll = { group: 'platform.space', resource: 'capsules', namespace: names.namespace, verb };
  return (await may(onAll)) || may({ ...onAll, name: capsule });
}

const resume = (visit: Visit, to: Url): Html =>
  postForm(visit, to, html`<button class="plain">Resume</button>`);

const link =
  (to: Url, says: string): Act =>
  (isFirst) =>
    html`<a class="${isFirst ? 'button' : 'button plain'}" href="${to}">${says}</a>`;

/** A Capsule's databases exceed its quota, or the Capsule has its maximum number of Assistants. */
async function raise(visit: Visit, kind: Trouble['kind'], capsule: string): Promise<Act | undefined> {
  if (!(await onCapsule(visit, capsule, 'patch'))) return undefined;
  try {
    const view = await getCapsule(visit, capsule);
    const only = [kind === 'Capsule' ? 'database' : 'assistants'] as const;
    return (isFirst) => quotaForm(visit, view, { only, isFirst });
  } catch (error) {
    if (error instanceof KubernetesError) return undefined;
    throw error;
  }
}
