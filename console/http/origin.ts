import type { IncomingHttpHeaders } from 'node:http';

/** The addresses at which people reach the console, such as `https://localhost:8443`. */
export class Origins {
  readonly #byHost: ReadonlyMap<string, string>;

  constructor(origins: readonly string[]) {
    this.#byHost = new Map(origins.map((origin) => [new URL(origin).host, origin]));
  }

  /** Whether it is us who was asked; a name that somebody else points to our address is not. */
  isOurs({ host }: IncomingHttpHeaders): boolean {
    return host !== undefined && this.#byHost.has(host);
  }

  /** The address by which we were asked. */
  of({ host }: IncomingHttpHeaders): string | undefined {
    return host === undefined ? undefined : this.#byHost.get(host);
  }

  /** Whether a page of ours sent this form. A browser that says nothing of where it comes from is refused. */
  isFromOurPage({ host, origin, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
    if (host === undefined || origin === undefined) return false;
    return this.#byHost.get(host) === origin && (site === undefined || site === 'same-origin');
  }
}
