import { advice, coded, moment, state, type Tone, table } from '../html/parts.ts';
import { type Html, html } from '../html/template.ts';
import type { Condition } from '../kubernetes/space.ts';
import { inWords } from './reasons.ts';
import { UNDER_WAY } from './troubles.ts';

export const isWell = ({ type, status }: Condition) =>
  type === 'Stalled' ? status === 'False' : status === 'True';

/** Each condition with its advice; True ones are collapsed if another one is not. */
export function conditionTable(conditions: readonly Condition[]): Html {
  if (conditions.length === 0) return html`<p>The operator has not reconciled it yet.</p>`;
  const [well, wrong] = [conditions.filter(isWell), conditions.filter((one) => !isWell(one))];
  const says = well.length === 1 ? '1 condition is as expected' : `${well.length} conditions are as expected`;
  const folded = html`<details><summary>${says}</summary>${tableOf(well)}</details>`;
  return html`${wrong.length === 0 ? '' : tableOf(wrong)}${well.length === 0 ? '' : folded}`;
}

function tableOf(conditions: readonly Condition[]): Html {
  const rows = conditions.map((one) => [
    named(one.type),
    reasonOf(isWell(one) ? 'good' : one.status === 'False' ? 'bad' : 'warn', one.reason || one.status),
    advice(one.message),
    moment(one.lastTransitionTime),
  ]);
  return table(['Condition', 'State', 'What to do', 'Since'], rows);
}

const named = (type: string): Html => {
  const says = inWords(type);
  return says === type ? html`${type}` : html`${says} <code class="code">${type}</code>`;
};

/** A reason in words, followed by its code. */
export const reasonOf = (tone: Tone, reason: string): Html => coded(tone, inWords(reason), reason);

/** Whether an object is Ready, for a list or beside a title. A suspended one is not shown as a fault. */
export function readiness(isReady: boolean, reason = ''): Html {
  if (isReady) return state('good', 'Ready');
  const tone = reason === 'Suspended' || UNDER_WAY.has(reason) ? 'warn' : 'bad';
  return reason === '' ? state(tone, 'Not reconciled yet') : reasonOf(tone, reason);
}

export const readyOf = (conditions: readonly Condition[]): Condition | undefined =>
  conditions.find(({ type }) => type === 'Ready');
