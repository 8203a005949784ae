import type { Html } from '../html/template.ts';
import type { Url } from '../html/url.ts';

/** What a page of the console has come to: something to look at, another page to go to, or a file to keep. */
export type Outcome = Page | Redirect | Download;

export interface Page {
  readonly title: string;
  readonly main: Html;
  readonly status?: number;
  /** What stands beside the title: how it is with the thing that the page is about. */
  readonly beside?: Html;
  /** Why it says that something failed, for the log. */
  readonly cause?: unknown;
  /** Where in the Space the page is: the pages above it. */
  readonly trail?: readonly { readonly to: Url; readonly says: string }[];
}

export class Redirect {
  readonly to: Url;

  constructor(to: Url) {
    this.to = to;
  }
}

/** A file that is packed and sent as it is made. */
export class Download {
  readonly name: string;
  readonly bytes: AsyncIterable<Buffer>;
  /** Called once it is sent, or left. */
  readonly ended: () => void;

  constructor(name: string, bytes: AsyncIterable<Buffer>, ended: () => void) {
    this.name = name;
    this.bytes = bytes;
    this.ended = ended;
  }
}

/** Why a page is not shown, in words for the person; nothing else of an error ever reaches a page. */
export class PageError extends Error {
  override readonly name = 'PageError';
  readonly status: number;
  readonly title: string;
  /** A sentence that says what to do. */
  readonly advice: string;
  /** What the API server or a broker said, bounded and shown as somebody else's words. */
  readonly quoted: string | undefined;

  constructor(
    status: number,
    title: string,
    advice: string,
    options: { readonly quoted?: string; readonly cause?: unknown } = {},
  ) {
    super(title, 'cause' in options ? { cause: options.cause } : {});
    this.status = status;
    this.title = title;
    this.advice = advice;
    this.quoted = options.quoted;
  }
}

export const notFound = () =>
  new PageError(404, 'There is no such page', 'Look at the address again, or begin at Repairs.');
