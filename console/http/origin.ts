import type { IncomingHttpHeaders } from 'node:http';

/** The addresses at which people reach the console, such as `https://localhost:8443`. */
export class Origins {
  readonly #byHost: ReadonlyMap<string, string>;

  constructor(origins: readonly string[]) {
    this.#byHost = new Map(origins.map((origin) => [new URL(origin).host, origin]));
  }

  /** Whether the request names one of our hosts, and not another name that points to our address. */
  isOurs({ host }: IncomingHttpHeaders): boolean {
    return host !== undefined && this.#byHost.has(host);
  }

  /** The address of the request. */
  of({ host }: IncomingHttpHeaders): string | undefined {
    return host === undefined ? undefined : this.#byHost.get(host);
  }

  /** Whether a page of ours sent the form. A browser that does not send the origin is refused. */
  isFromOurPage({ host, origin, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
    if (host === undefined || origin === undefined) return false;
    return this.#byHost.get(host) === origin && (site === undefined || site === 'same-origin');
  }
}
