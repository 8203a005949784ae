import { isId } from '@space/manifests';
import { Url } from '../html/url.ts';

const ONE = /^\/capsules\/([a-z0-9-]{1,40})(?:\/assistants\/([a-z0-9.-]{1,253}))?$/;

/** Where somebody wanted to go before they signed in: a page of ours, or the first one. Nothing else is ever gone to. */
export function returnPath(wanted = ''): Url {
  if (wanted === '/capsules') return Url.path`/capsules`;
  const [, capsule = '', assistant] = ONE.exec(wanted) ?? [];
  if (!isId(capsule)) return Url.path`/`;
  return assistant === undefined
    ? Url.path`/capsules/${capsule}`
    : Url.path`/capsules/${capsule}/assistants/${assistant}`;
}
