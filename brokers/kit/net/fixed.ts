import { isIP } from 'node:net';
import type { Answer } from './resolve.ts';

const TTL_S = 60;

/** Parses `HOST=ADDRESS` or `HOST=ADDRESS:PORT`; an IPv6 address with a port is in brackets. */
export function parseFixed(text: string): { readonly host: string; readonly answer: Answer } | undefined {
  const [, host, bracketed, plain, port] =
    /^([a-z0-9.-]+)=(?:\[([^\]]+)\]|([^[\]]+?))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  if (host === undefined) return undefined;
  // The last group of an IPv6 address without brackets looks like a port.
  const whole = text.slice(host.length + 1);
  if (isIP(whole) !== 0) return { host, answer: { address: whole, ttl: TTL_S, trusted: true } };
  const address = bracketed ?? plain ?? '';
  if (isIP(address) === 0 || Number(port) > 65_535) return undefined;
  const fixedPort = port === undefined ? {} : { port: Number(port) };
  return { host, answer: { address, ttl: TTL_S, trusted: true, ...fixedPort } };
}

export function fixedMap(texts: readonly string[]): ReadonlyMap<string, Answer> {
  return new Map(
    texts.flatMap((text) => {
      const fixed = parseFixed(text);
      return fixed === undefined ? [] : [[fixed.host, fixed.answer] as const];
    }),
  );
}
