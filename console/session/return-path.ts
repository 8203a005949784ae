import { isId } from '@space/manifests';
import { Url } from '../html/url.ts';

const ONE = /^\/capsules\/([a-z0-9-]{1,40})(?:\/(credentials)|\/assistants\/([a-z0-9.-]{1,253}))?$/;

/** The page that a person wanted before the sign-in, if it is one of ours; else the first page. */
export function returnPath(wanted = ''): Url {
  if (wanted === '/capsules') return Url.path`/capsules`;
  if (wanted === '/sandbox') return Url.path`/sandbox`;
  // The archive is a file, after which no page would be shown.
  if (wanted === '/diagnostics' || wanted === '/diagnostics/archive') return Url.path`/diagnostics`;
  const [, capsule = '', credentials, assistant] = ONE.exec(wanted) ?? [];
  if (!isId(capsule)) return Url.path`/`;
  if (credentials !== undefined) return Url.path`/capsules/${capsule}/credentials`;
  return assistant === undefined
    ? Url.path`/capsules/${capsule}`
    : Url.path`/capsules/${capsule}/assistants/${assistant}`;
}

/** The page whose form has this address. */
export const pageOfAct = (path: string): Url => returnPath(path.replace(/(?:\/inputs)?\/[^/]+$/, ''));
