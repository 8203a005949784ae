/** What a hostile tenant does, as data: a process of its own is told it and does it until it is ended. */
export type Act =
  /** Connections that say nothing, opened again when they are ended. */
  | {
      readonly kind: 'silent';
      readonly port: number;
      readonly from: readonly string[];
      readonly each: number;
    }
  /** Requests, each on a connection of its own, at a rate; `FRESH` is other characters in each. */
  | (Http & { readonly kind: 'requests'; readonly perSecond: number })
  /** This many requests at once on each connection, and this many connections a second. */
  | (Http & { readonly kind: 'pipelined'; readonly times: number; readonly perSecond: number })
  /** Answers that are read at 32 KiB a second. */
  | (Http & { readonly kind: 'slow-reads'; readonly connections: number })
  /** Bodies that are sent at 2 KiB a second. */
  | (Http & { readonly kind: 'slow-writes'; readonly connections: number })
  /** Tunnels that stay, and tunnels that come and go. */
  | (Http & { readonly kind: 'tunnels'; readonly kept: number; readonly perSecond: number })
  /** Sessions that each run these statements over and over, or once and stay. */
  | {
      readonly kind: 'sql';
      readonly url: string;
      readonly sessions: number;
      readonly statements: readonly string[];
      readonly once?: true;
    }
  /** Sessions that ask for much and stop reading. */
  | { readonly kind: 'unread'; readonly url: string; readonly sessions: number; readonly statement: string }
  /** Logins at a rate, each kept for as long as it is let. */
  | { readonly kind: 'logins'; readonly url: string; readonly perSecond: number };

interface Http {
  readonly port: number;
  /** The loopback address that it comes from. */
  readonly from: string;
  /** Head of the request, with its empty line. */
  readonly head: string;
  /** Its body: this text, so often. */
  readonly body?: readonly [text: string, times: number];
}

/** Stands for other characters in each request, as many as a token or a key has at random. */
export const RANDOM_TEXT = 'fresh'.padEnd(43, '-');

export type HttpAct = Extract<Act, Http>;

/** A request line and headers as bytes on the wire. */
export function headOf(line: string, headers: Readonly<Record<string, string | number>>): string {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${line} HTTP/1.1\r\n${fields.join('')}\r\n`;
}
