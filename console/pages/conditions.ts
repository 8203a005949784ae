import { foreign, state, table } from '../html/parts.ts';
import { type Html, html } from '../html/template.ts';
import type { Condition, EventView } from '../kubernetes/space.ts';
import { timeOf } from '../kubernetes/space.ts';

const isWell = ({ type, status }: Condition) => (type === 'Stalled' ? status === 'False' : status === 'True');

/** Each condition with its advice, what is wrong first. */
export function conditionTable(conditions: readonly Condition[]): Html {
  if (conditions.length === 0) return html`<p>The operator has not looked at it yet.</p>`;
  const sorted = [...conditions].sort((a, b) => Number(isWell(a)) - Number(isWell(b)));
  const rows = sorted.map((one) => [
    one.type,
    state(
      isWell(one) ? 'good' : one.status === 'False' ? 'bad' : 'warn',
      one.reason === '' ? one.status : one.reason,
    ),
    foreign(one.message, 1_000),
    one.lastTransitionTime,
  ]);
  return table(['Condition', 'State', 'What to do', 'Since'], rows);
}

/** What happened, as far as the cluster still knows; Events are kept for an hour. */
export function eventTable(events: readonly EventView[] | undefined): Html {
  if (events === undefined)
    return html`<p class="quiet">You may not see Events: it takes <code>list</code> on <code>events.events.k8s.io</code>.</p>`;
  if (events.length === 0) return html`<p class="quiet">None that the cluster still keeps.</p>`;
  const rows = events
    .slice(0, MOST_SHOWN)
    .map((event) => [
      timeOf(event),
      state(event.type === 'Warning' ? 'warn' : 'good', event.reason),
      foreign(event.note, 1_000),
    ]);
  return table(['When', 'What', 'Note'], rows);
}

const MOST_SHOWN = 100;

export const readyOf = (conditions: readonly Condition[]): Condition | undefined =>
  conditions.find(({ type }) => type === 'Ready');
