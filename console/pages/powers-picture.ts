import type { Manifest } from '@space/manifests';
import { type Html, html } from '../html/template.ts';
import { bounded, isPlainHost } from '../html/visible.ts';

/** One thing that the Assistant may reach or use, as a line of the picture. */
interface Reach {
  readonly what: string;
  readonly more: string;
  /** Whether it lies outside of the Space. */
  readonly isOutside: boolean;
}

/** Everything that a manifest asks for, as a layman would say it. */
export function reachesOf(manifest: Manifest): readonly Reach[] {
  const { network, stored_inputs: inputs = {}, integrations = {} } = manifest;
  const known = (host: string) => (isPlainHost(host) ? host : `${host} (unusual letters)`);
  return [
    { what: 'A database of its own', more: 'nobody else’s', isOutside: false },
    { what: 'Files of its own, and its Capsule’s', more: 'in the object store', isOutside: false },
    ...Object.entries(integrations).map(([name, { scopes }]) => ({
      what: `Integration ${name}`,
      more: scopes.join(', '),
      isOutside: true,
    })),
    ...network.allowed_hosts.map((host) => ({
      what: known(host),
      more: 'any request, over https',
      isOutside: true,
    })),
    ...Object.values(inputs).map(({ label, host, routes, hmac }) => ({
      what: `${known(host)}, with “${label}”`,
      more: `${hmac === undefined ? 'the secret is put in' : 'the secret signs'} on ${routes
        .map(({ method, path }) => `${method} ${path}`)
        .join(', ')}`,
      isOutside: true,
    })),
  ];
}

const [WIDTH, ROW, TOP] = [800, 56, 16];
const LONGEST = 68;

/** Assistant → what it may reach, drawn on the server; the same is beside it as a list for who does not see it. */
export function powersPicture(name: string, reaches: readonly Reach[]): Html {
  const height = TOP * 2 + reaches.length * ROW;
  const middle = height / 2;
  const lines = reaches.map(({ what, more, isOutside }, index) => {
    const y = TOP + index * ROW;
    const centre = y + ROW / 2 - 4;
    return html`<path d="M 190 ${middle} C 230 ${middle} 230 ${centre} 270 ${centre}"></path>
<g class="${isOutside ? 'outside' : 'inside'}"><rect x="270" y="${y}" width="520" height="${ROW - 8}" rx="6"></rect>
<text x="284" y="${y + 20}">${bounded(what, LONGEST)}</text><text class="small" x="284" y="${y + 38}">${bounded(more, LONGEST + 14)}</text></g>`;
  });
  return html`<svg class="picture" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="What the Assistant may reach; the list below says the same">
<rect class="self" x="10" y="${middle - 26}" width="180" height="52" rx="8"></rect>
<text class="self-text" x="24" y="${middle + 5}">${bounded(name, 20)}</text>${lines}</svg>`;
}

/** The same in words, whole. */
export const powersList = (reaches: readonly Reach[]): Html =>
  html`<details><summary>The same as a list</summary><ul>${reaches.map(
    ({ what, more }) => html`<li><bdi>${bounded(what, 400)}</bdi>: <bdi>${bounded(more, 4_000)}</bdi></li>`,
  )}</ul></details>`;
