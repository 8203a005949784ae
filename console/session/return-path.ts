import { isId } from '@space/manifests';
import { Url } from '../html/url.ts';

const ONE = /^\/capsules\/([a-z0-9-]{1,40})(?:\/(credentials)|\/assistants\/([a-z0-9.-]{1,253}))?$/;

/** Where somebody wanted to go before they signed in: a page of ours, or the first one. Nothing else is ever gone to. */
export function returnPath(wanted = ''): Url {
  if (wanted === '/capsules') return Url.path`/capsules`;
  if (wanted === '/sandbox') return Url.path`/sandbox`;
  // The archive is a file, and leads nowhere.
  if (wanted === '/diagnostics' || wanted === '/diagnostics/archive') return Url.path`/diagnostics`;
  const [, capsule = '', credentials, assistant] = ONE.exec(wanted) ?? [];
  if (!isId(capsule)) return Url.path`/`;
  if (credentials !== undefined) return Url.path`/capsules/${capsule}/credentials`;
  return assistant === undefined
    ? Url.path`/capsules/${capsule}`
    : Url.path`/capsules/${capsule}/assistants/${assistant}`;
}

/** The page whose form goes to this address. */
export const pageOfAct = (path: string): Url => returnPath(path.replace(/(?:\/inputs)?\/[^/]+$/, ''));
