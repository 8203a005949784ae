import type { Manifest } from '@space/manifests';
import { type Html, html } from '../html/template.ts';
import { bounded, isPlainHost } from '../html/visible.ts';

/** One thing that the Assistant may reach or use, as a line of the picture. */
interface Reach {
  readonly what: string;
  readonly more: string;
  /** Whether it is outside of the Space. */
  readonly isOutside: boolean;
}

/** Everything that a manifest asks for, in words for people without technical knowledge. */
export function reachesOf(manifest: Manifest): readonly Reach[] {
  const { network, stored_inputs: inputs = {}, integrations = {} } = manifest;
  const known = (host: string) => (isPlainHost(host) ? host : `${host} (unusual letters)`);
  return [
    { what: 'Its own database', more: 'not shared', isOutside: false },
    { what: 'Its own files, and its Capsule’s', more: 'in the object store', isOutside: false },
    ...Object.entries(integrations).map(([name, { scopes }]) => ({
      what: `Integration ${name}`,
      more: scopes.join(', '),
      isOutside: true,
    })),
    ...network.allowed_hosts.map((host) => ({
      what: known(host),
      more: 'any request over https',
      isOutside: true,
    })),
    ...Object.values(inputs).map(({ label, host, routes, hmac }) => ({
      what: `${known(host)}, with “${label}”`,
      more: `${hmac === undefined ? 'the secret is added to' : 'the secret signs'} ${routes
        .map(({ method, path }) => `${method} ${path}`)
        .join(', ')}`,
      isOutside: true,
    })),
  ];
}

/** The layout of the picture: side by side on a wide screen, one below the other on a narrow one. */
interface Plan {
  readonly is: 'wide' | 'narrow';
  readonly width: number;
  readonly left: number;
  /** The width of the boxes of what the Assistant reaches. */
  readonly box: number;
  /** The most letters of a line. */
  readonly letters: number;
}
const PLANS: readonly Plan[] = [
  { is: 'wide', width: 720, left: 272, box: 446, letters: 50 },
  { is: 'narrow', width: 360, left: 46, box: 312, letters: 36 },
];
const [ROW, TOP, SELF, LEGEND] = [56, 8, 52, 34];
/** The distance between the tip of an arrow and its box. */
const GAP = 3;

/** The Assistant with arrows to what it may reach, drawn on the server; the list beside it says the same in words. */
export const powersPicture = (name: string, reaches: readonly Reach[]): Html =>
  html`${PLANS.map((plan) => drawn(plan, name, reaches))}`;

function drawn(plan: Plan, name: string, reaches: readonly Reach[]): Html {
  const { is, width, left, box, letters } = plan;
  const isWide = is === 'wide';
  const first = isWide ? TOP : TOP + SELF + 20;
  const end = first + reaches.length * ROW;
  const middle = isWide ? (first + end) / 2 - 4 : TOP + SELF / 2;
  const tip = left - GAP;
  const lines = reaches.map(({ what, more, isOutside }, index) => {
    const y = first + index * ROW;
    const centre = y + ROW / 2 - 4;
    const way = isWide
      ? `M 190 ${middle} C 230 ${middle} 220 ${centre} ${tip - 8} ${centre}`
      : `M 20 ${TOP + SELF} V ${centre - 8} Q 20 ${centre} 28 ${centre} H ${tip - 8}`;
    return html`<path d="${way}"></path><path class="head" d="M ${tip} ${centre} l -9 -5 v 10 z"></path>
<g class="${isOutside ? 'outside' : 'inside'}"><rect x="${left}" y="${y}" width="${box}" height="${ROW - 8}" rx="8"></rect>
<text x="${left + 14}" y="${y + 20}">${short(what, letters)}</text><text class="small" x="${left + 14}" y="${y + 38}">${short(more, letters + 10)}</text></g>`;
  });
  return html`<svg class="picture ${is}" viewBox="0 0 ${width} ${end + LEGEND}" role="img" aria-label="What the Assistant may reach; the list below contains the same">
${lines}<rect class="self" x="2" y="${middle - SELF / 2}" width="188" height="${SELF}" rx="10"></rect>
<text class="self-text" x="18" y="${middle + 5}">${short(name, 20)}</text>${legend(left, end + 12)}</svg>`;
}

/** The meaning of the two colours. */
const legend = (x: number, y: number): Html =>
  html`<g class="inside"><rect x="${x}" y="${y}" width="14" height="14" rx="4"></rect></g><text class="small" x="${x + 22}" y="${y + 11}">within this Space</text>
<g class="outside"><rect x="${x + 142}" y="${y}" width="14" height="14" rx="4"></rect></g><text class="small" x="${x + 164}" y="${y + 11}">outside the Space</text>`;

/** Shortened for the picture; the list has the whole text. */
const short = (text: string, most: number) =>
  [...text.slice(0, most * 2)].length <= most
    ? text
    : `${[...text.slice(0, most * 2)].slice(0, most - 1).join('')}…`;

/** The same in words, not shortened. */
export const powersList = (reaches: readonly Reach[]): Html =>
  html`<details><summary>The same as a list</summary><ul>${reaches.map(
    ({ what, more }) => html`<li><bdi>${bounded(what, 400)}</bdi>: <bdi>${bounded(more, 4_000)}</bdi></li>`,
  )}</ul></details>`;
