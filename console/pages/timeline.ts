import { code, foreign, moment, state, type Tone } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { type Done, type DoneAct, doneOn } from '../kubernetes/record.ts';
import type { Condition, EventView, Metadata } from '../kubernetes/space.ts';
import { firstTimeOf, lastTimeOf } from '../kubernetes/space.ts';
import { isWell, reasonOf } from './conditions.ts';

/** An event in an object's past that the cluster still knows. */
interface Moment {
  readonly at: string;
  readonly tone: Tone;
  readonly says: Value;
  readonly more: Value;
}

const MOST_SHOWN = 100;
/** The approved digest, followed by a space and the approver. */
export const APPROVED = 'platform.space/approved';
export const APPROVED_BY = 'platform.space/approved-by';
/** The creator, as the API server recorded it. */
const INSTALLED_BY = 'platform.space/installed-by';

/**
 * What happened, the newest first: Events, the last changes of conditions, and writes. Kubernetes knows the program
 * that wrote and not the person; creator and approver are known by annotations that admission policies verify.
 */
export function timeline(about: {
  readonly metadata: Metadata;
  readonly conditions: readonly Condition[];
  readonly events: readonly EventView[] | undefined;
}): Html {
  const { metadata, conditions, events } = about;
  const moments = [
    ...(events ?? []).filter(isAbout(metadata)).map(ofEvent),
    ...ofConditions(conditions),
    ...metadata.managedFields.flatMap((entry) => ofWrite(entry, metadata)),
    ...doneOn(metadata).map(ofDone),
    ...made(metadata),
  ].filter(({ at }) => at !== '');
  const shown = moments.sort((a, b) => (a.at === b.at ? 0 : a.at < b.at ? 1 : -1)).slice(0, MOST_SHOWN);
  const entries = shown.map(
    ({ at, tone, says, more }) =>
      html`<li class="${tone}"><p>${says} <span class="quiet">${moment(at)}</span></p><p>${more}</p></li>`,
  );
  const hidden =
    events === undefined ? ' You may not see Events: this requires list on events.events.k8s.io.' : '';
  return html`<ol class="timeline">${entries}</ol>
<p class="quiet">This list contains Events, which the cluster keeps for an hour; the last change of each condition, so an earlier failure is only in the Events; the last write of each program; and the last 20 actions of people with this console. The person is known for these actions, for the installation and for the approval; for other changes, see the API server’s audit log.${hidden}</p>`;
}

/** An Event names its object by name and UID; an object that was deleted may have had the same name. */
const isAbout =
  ({ uid }: Metadata) =>
  ({ regarding }: EventView) =>
    regarding.uid === undefined || regarding.uid === uid;

function ofEvent(event: EventView): Moment {
  const tone = event.type === 'Warning' ? 'warn' : 'good';
  const often =
    event.series == null
      ? ''
      : html` <span class="quiet">${event.series.count} times since ${moment(firstTimeOf(event))}.</span>`;
  const more = html`${foreign(event.note, 1_000)}${often}`;
  return { at: lastTimeOf(event), tone, says: reasonOf(tone, event.reason), more };
}

/**
 * Conditions that reached the same state for the same reason within a minute are one event, since a new Capsule has
 * seven of them.
 */
function ofConditions(conditions: readonly Condition[]): readonly Moment[] {
  const groups = Map.groupBy(conditions, (one) =>
    JSON.stringify([
      one.lastTransitionTime.slice(0, 'YYYY-MM-DDTHH:MM'.length),
      one.status,
      one.reason,
      isWell(one),
    ]),
  );
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [becameOf(first, others)],
  );
}

function becameOf(first: Condition, others: readonly Condition[]): Moment {
  const { status, reason } = first;
  const tone = isWell(first) ? 'good' : 'warn';
  const all = [first, ...others];
  const types = all
    .map(({ type }) => type)
    .sort()
    .join(', ');
  return {
    at:
      all
        .map(({ lastTransitionTime }) => lastTransitionTime)
        .sort()
        .at(-1) ?? '',
    tone,
    says: reasonOf(tone, reason === '' ? status : reason),
    more: html`${others.length === 0 ? 'Condition' : 'Conditions'} ${types} became ${status}.`,
  };
}

const DONE: Readonly<Record<DoneAct, (what: Html) => Html>> = {
  suspended: () => html`Suspended`,
  resumed: () => html`Resumed`,
  quota: () => html`Quota changed`,
  input: (what) => html`Stored input ${what} entered`,
  created: (what) => html`Credential set ${what} created`,
  rotated: (what) => html`Credential set ${what} rotated`,
  selected: (what) => html`Credential set ${what} selected`,
  deselected: () => html`Selection of a credential set removed`,
  deleted: (what) => html`Credential set ${what} deleted`,
};

function ofDone({ at, act, what, by }: Done): Moment {
  const says = html`<span class="state good">${DONE[act](code(what, 64))}</span>`;
  return { at, tone: 'good', says, more: html`By ${foreign(by, 200)}, with the console.` };
}

const made = (metadata: Metadata): readonly Moment[] => [
  {
    at: metadata.creationTimestamp ?? '',
    tone: 'good',
    says: state('good', 'Created'),
    more: installer(metadata),
  },
];

type Write = Metadata['managedFields'][number];

/** A write of the spec or of the approval; the operator's writes of status are shown as conditions. */
function ofWrite({ manager, time, subresource, fieldsV1 }: Write, metadata: Metadata): readonly Moment[] {
  if (subresource !== undefined && subresource !== '') return [];
  const spec = Object.keys(fieldsV1?.['f:spec'] ?? {}).map((key) => key.replace(/^f:/, ''));
  const annotations = Object.keys(fieldsV1?.['f:metadata']?.['f:annotations'] ?? {});
  const program = html`by the program ${foreign(manager, 64)}`;
  return [
    ...(spec.length === 0
      ? []
      : [
          written(
            time,
            'Written',
            html`Fields of the specification: ${foreign(spec.filter((key) => key !== '.').join(', '), 300)}; ${program}.`,
          ),
        ]),
    ...(annotations.includes(`f:${APPROVED}`)
      ? [written(time, 'Approved', html`${approver(metadata)} Last written ${program} at this time.`)]
      : []),
  ];
}

const written = (at: string, says: string, more: Html): Moment => ({
  at,
  tone: 'good',
  says: state('good', says),
  more,
});

/** Returns the creator. */
export function installer({ annotations }: Pick<Metadata, 'annotations'>): Html {
  const person = annotations[INSTALLED_BY];
  return person === undefined
    ? html`It is not recorded who installed it: this requires Kubernetes 1.36.`
    : html`Installed by ${foreign(person, 200)}.`;
}

/** Returns the approver of the approved digest, whose name the admission policy verified. */
export function approver({ annotations }: Pick<Metadata, 'annotations'>): Html {
  const digest = annotations[APPROVED];
  const by = annotations[APPROVED_BY];
  if (digest === undefined) return html`It is not approved.`;
  const person = by?.startsWith(`${digest} `) ? by.slice(digest.length + 1) : undefined;
  return person === undefined ? html`It is not recorded who approved it.` : html`By ${foreign(person, 200)}.`;
}
