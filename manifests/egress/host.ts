import { RESERVED_LAST_LABELS } from '../rules/help-url.ts';

const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** Last labels that never name a public host: the interface's, and RFC 9476's. */
const SPECIAL_USE = new Set([...RESERVED_LAST_LABELS, 'alt']);

/**
 * What keeps a gateway from enforcing a host exactly, as the end of the sentence "it …"; `undefined` for the canonical
 * name of a public host. A manifest may hold such a host (the interface allows any text); it is just never reached.
 */
export function hostFault(host: string): string | undefined {
  if (host.includes('*')) return 'has a wildcard';
  if (/^[0-9.]+$/.test(host) || host.includes('[') || /^[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*$/i.test(host))
    return 'is an address, not a name';
  if (/[/@?#]/.test(host)) return 'is more than a name';
  if (host.includes(':')) return 'names a port; only 443 is reached';
  if (host.endsWith('.')) return 'ends with a dot';
  if (host !== host.toLowerCase()) return 'is not in lower case';
  const labels = host.split('.');
  if (!labels.every((label) => LABEL.test(label))) return 'is not a name of letters, digits and hyphens';
  if (labels.length < 2) return 'has a single label';
  const last = labels.at(-1) ?? '';
  // A last label that a C library could read as a number makes the whole an address (WHATWG URL, section 3.5).
  if (/^(?:[0-9]+|0x[0-9a-f]*)$/.test(last)) return 'is an address, not a name';
  if (!/^[a-z]/.test(last)) return 'has a last label that does not begin with a letter';
  if (SPECIAL_USE.has(last)) return `ends with .${last}, which no public host does`;
  return undefined;
}
