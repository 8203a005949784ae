import type { Html } from '../html/template.ts';
import type { Url } from '../html/url.ts';

/** The result of a request: a page, a redirect, or a file. */
export type Outcome = Page | Redirect | Download;

export interface Page {
  readonly title: string;
  readonly main: Html;
  readonly status?: number;
  /** What is shown beside the title: the state of the page's object. */
  readonly beside?: Html;
  /** Why the page reports a failure, for the log. */
  readonly cause?: unknown;
  /** The pages above this one. */
  readonly trail?: readonly { readonly to: Url; readonly says: string }[];
}

export class Redirect {
  readonly to: Url;

  constructor(to: Url) {
    this.to = to;
  }
}

/** A file that is created while it is sent. */
export class Download {
  readonly name: string;
  readonly bytes: AsyncIterable<Buffer>;
  /** Called when it was sent or abandoned. */
  readonly ended: () => void;

  constructor(name: string, bytes: AsyncIterable<Buffer>, ended: () => void) {
    this.name = name;
    this.bytes = bytes;
    this.ended = ended;
  }
}

/** Why a page is not shown, in words for the person; nothing else of an error is ever shown. */
export class PageError extends Error {
  override readonly name = 'PageError';
  readonly status: number;
  readonly title: string;
  /** A sentence that says what to do. */
  readonly advice: string;
  /** The message of the API server or a broker, of limited length and marked as a quotation. */
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

export const notFound = () => new PageError(404, 'Page not found', 'Check the address, or begin at Repairs.');
