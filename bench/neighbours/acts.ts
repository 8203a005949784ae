/** What a hostile tenant does, as data for the hostile process, which does it until it is ended. */
export type Act =
  /** Connections that send nothing, and are opened again when they are ended. */
  | {
      readonly kind: 'silent';
      readonly port: number;
      readonly from: readonly string[];
      readonly each: number;
    }
  /** Requests at a constant rate, each on a connection of its own; `RANDOM_TEXT` is replaced in each. */
  | (Http & { readonly kind: 'requests'; readonly perSecond: number })
  /** Connections at a constant rate, each with this many requests at once. */
  | (Http & { readonly kind: 'pipelined'; readonly times: number; readonly perSecond: number })
  /** Answers that are read at 32 KiB a second. */
  | (Http & { readonly kind: 'slow-reads'; readonly connections: number })
  /** Bodies that are sent at 2 KiB a second. */
  | (Http & { readonly kind: 'slow-writes'; readonly connections: number })
  /** Tunnels that stay open, and tunnels that are opened and closed at a constant rate. */
  | (Http & { readonly kind: 'tunnels'; readonly kept: number; readonly perSecond: number })
  /** Sessions that repeat these statements, or run them once and stay open. */
  | {
      readonly kind: 'sql';
      readonly url: string;
      readonly sessions: number;
      readonly statements: readonly string[];
      readonly once?: true;
    }
  /** Sessions that request a large answer and stop reading it. */
  | { readonly kind: 'unread'; readonly url: string; readonly sessions: number; readonly statement: string }
  /** Logins at a constant rate; each session stays open until the server ends it. */
  | { readonly kind: 'logins'; readonly url: string; readonly perSecond: number };

interface Http {
  readonly port: number;
  /** The loopback address that it comes from. */
  readonly from: string;
  /** Head of the request, with its empty line. */
  readonly head: string;
  /** The body: this text, repeated this often. */
  readonly body?: readonly [text: string, times: number];
}

/** A placeholder that is replaced in each request by as many random characters as a token or a key has. */
export const RANDOM_TEXT = 'fresh'.padEnd(43, '-');

export type HttpAct = Extract<Act, Http>;

/** A request line and headers as they are sent. */
export function headOf(line: string, headers: Readonly<Record<string, string | number>>): string {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${line} HTTP/1.1\r\n${fields.join('')}\r\n`;
}
