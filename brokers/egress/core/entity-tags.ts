import type { Method } from './route.ts';

/** Seals a host's tag for a caller, and opens what the caller sends back. */
export interface TagSeal {
  readonly seal: (tag: string) => string;
  /** Undefined for a text that this seal did not create. */
  readonly open: (text: string) => string | undefined;
}

/** An entity tag that no host uses. */
const NONE = '"of-no-answer-through-this-gateway"';
/** Further tags of a request are ignored, in however many headers they come, since each costs two MACs. */
const MOST_TAGS = 32;
const TAG = /(W\/)?("[^"]*"|[^\s,"]+)/g;
const WEAK = 'W/';
const CONDITIONS = new Set(['if-match', 'if-none-match']);

/**
 * The `ETag` of an answer as its caller gets it. Many hosts hash the body before the value in it is replaced by stars, so
 * a caller could try guesses of the value on the hash, without asking anybody.
 */
export function sealedTag(value: string, seal: TagSeal['seal']): string {
  // Without a regular expression, which would take a second for a tag with 30,000 spaces in it.
  const tag = value.trim();
  return tag.startsWith(WEAK) ? `${WEAK}"${seal(tag.slice(WEAK.length))}"` : `"${seal(tag)}"`;
}

/**
 * Replaces the tags in a request's conditions by the host's own. A tag that the gateway did not issue could be a guess
 * of a hash, so it becomes one that matches nothing. Only a changing request may contain one such tag, since some APIs
 * return the tag for a change in a body; that permits one guess for each request.
 */
export function withHostTags(headers: readonly string[], method: Method, open: TagSeal['open']): string[] {
  const isChange = method !== 'GET' && method !== 'HEAD';
  let foreign = 0;
  let left = MOST_TAGS;
  return headers.map((value, at) => {
    const name = headers[at - 1]?.toLowerCase() ?? '';
    if (at % 2 === 0 || !CONDITIONS.has(name) || value.trim() === '*') return value;
    const found = [...value.matchAll(TAG).take(left)];
    left -= found.length;
    const tags = found.map(([whole, weak = '', text = '']) => {
      const tag = open(text.replace(/^"|"$/g, ''));
      if (tag !== undefined && tag !== '') return `${weak}${tag}`;
      foreign += 1;
      return isChange && name === 'if-match' && foreign === 1 ? whole : NONE;
    });
    return tags.length === 0 ? NONE : tags.join(', ');
  });
}
