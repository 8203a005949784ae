import { type Html, html, type Value } from '../html/template.ts';
import type { AssistantView, CapsuleView } from '../kubernetes/space.ts';
import { amountOf } from './quantity.ts';

/** How much of its Capsule's quota one Assistant uses. */
export function ownUse({ status }: AssistantView): Html {
  const { database, storage } = status.usage ?? {};
  const card = (what: string, use: string | undefined) =>
    html`<li class="card"><h3>${what}</h3><p><strong>${use ?? 'not measured yet'}</strong></p></li>`;
  return html`<ul class="bars">${card('Its database', database)}${card('Its own files', storage)}</ul>`;
}

/** A bar for each limit whose usage the operator reports. */
export function quotaBars({ spec, status }: CapsuleView): Html {
  const { quota = {} } = spec;
  const used = [
    ['Database', quota.database, status.usage?.database],
    ['Files', quota.storage, status.usage?.storage],
    ['Assistants', quota.assistants, status.assistants?.total ?? 0],
  ] as const;
  const cards = used.map(
    ([what, limit, use]) =>
      html`<li class="card"><h3>${what}</h3><p><strong>${use ?? 'not measured yet'}</strong> <span class="quiet">of ${limit ?? 'the Space’s default'}</span></p>${bar(what, limit, use)}</li>`,
  );
  return html`<ul class="bars">${cards}</ul>`;
}

function bar(what: string, limit: unknown, use: unknown): Value {
  const [most, now] = [amountOf(limit), amountOf(use)];
  if (most === undefined || now === undefined || most === 0) return '';
  const share = Math.round((now / most) * 100);
  return html`<meter aria-label="${what}" min="0" max="100" low="80" high="95" optimum="0" value="${Math.min(share, 100)}"></meter><p class="quiet">${share} % used</p>`;
}
