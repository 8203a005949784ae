// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of sources
import type { Equivalent } from './entry.ts';

const CALLS = 'console/gateway/calls.ts';
const ORIGIN = 'console/http/origin.ts';
const TEMPLATE = 'console/html/template.ts';

export const CONSOLE: readonly Equivalent[] = [
  {
    file: TEMPLATE,
    code: 'if (holes === undefined) {',
    change: 'holes === undefined → true',
    reason: 'the template is only parsed again each time',
  },
  {
    file: TEMPLATE,
    code: 'known.set(strings, holes);',
    change: 'known.set(strings, holes); → ;',
    reason: 'the template is only parsed again each time',
  },
  {
    file: 'console/html/visible.ts',
    code: 'if (text.length <= max) return text;',
    change: 'text.length <= max → text.length < max',
    reason: 'a text of exactly this length is counted, and shown whole',
  },
  {
    file: CALLS,
    code: "url: `${protocol}//${host}${port === '' ? '' : `:${port}`}${path}`,",
    change: "port === '' → false",
    reason: 'an empty port means the default port',
  },
  {
    file: CALLS,
    code: "return understood.kind === 'done' ? understood.value : undefined;",
    change: "understood.kind === 'done' → true",
    reason: 'only an answer has a value: the comparison is for the compiler',
  },
  {
    file: CALLS,
    code: "const addresses = await lookup(hostname.replace(/^\\[(.*)\\]$/, '$1')).catch(() => []);",
    change: '/^\\[(.*)\\]$/ → /\\[(.*)\\]$/',
    reason: 'the host of a URL has brackets around all of it, or none',
  },
  {
    file: CALLS,
    code: "const addresses = await lookup(hostname.replace(/^\\[(.*)\\]$/, '$1')).catch(() => []);",
    change: '/^\\[(.*)\\]$/ → /^\\[(.*)\\]/',
    reason: 'the host of a URL has brackets around all of it, or none',
  },
  {
    file: CALLS,
    code: 'const last = known !== undefined && known.last_at > last_at ? known.last_at : last_at;',
    change: 'known.last_at > last_at → known.last_at >= last_at',
    reason: 'of two equal times either is the last',
  },
  {
    file: ORIGIN,
    code: 'return host !== undefined && this.#byHost.has(host);',
    change: 'host !== undefined && this.#byHost.has(host) → (this.#byHost.has(host))',
    reason: 'none of our hosts is undefined: the comparison is for the compiler',
  },
  {
    file: ORIGIN,
    code: 'return host === undefined ? undefined : this.#byHost.get(host);',
    change: 'host === undefined → false',
    reason: 'none of our hosts is undefined: the comparison is for the compiler',
  },
  {
    file: ORIGIN,
    code: 'if (host === undefined || origin === undefined) return false;',
    change: 'host === undefined || origin === undefined → (origin === undefined)',
    reason: 'none of our hosts is undefined, so that it has no address, and an origin is one',
  },
  {
    file: 'console/html/visible.ts',
    code: 'if (text.length <= max) return text;',
    change: 'text.length <= max → false',
    reason: 'a text that is short enough is counted, and shown whole',
  },
  {
    file: 'console/session/session.ts',
    code: 'if (own !== undefined) this.#sessions.delete(own);',
    change: 'own !== undefined → true',
    reason: 'a session exists, since there are too many: the comparison is for the compiler',
  },
];
