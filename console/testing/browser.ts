import { type DefaultTreeAdapterTypes, parse } from 'parse5';
import { type Dispatcher, getGlobalDispatcher, request } from 'undici';

type Node = DefaultTreeAdapterTypes.Node;
type Element = DefaultTreeAdapterTypes.Element;

/** A form of a page. */
interface ShownForm {
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
}

export interface Shown {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly html: string;
  /** What a person reads. */
  readonly text: string;
  readonly forms: readonly ShownForm[];
  readonly links: readonly string[];
  readonly path: string;
}

/** A browser without script: it keeps cookies, follows redirects and sends the forms that it is shown. */
export class Browser {
  readonly cookies = new Map<string, string>();
  readonly #origin: string;
  readonly #dispatcher: Dispatcher;

  constructor(origin: string, dispatcher = getGlobalDispatcher()) {
    this.#origin = origin;
    this.#dispatcher = dispatcher;
  }

  get(path: string): Promise<Shown> {
    return this.#go('GET', path);
  }

  /** Sends the form of a page that goes to `action`, with these fields filled in. */
  send(page: Shown, action: string, fields: Readonly<Record<string, string>> = {}): Promise<Shown> {
    const form = page.forms.find((one) => one.action === action);
    if (form === undefined)
      throw new Error(`no form goes to ${action}, only to ${page.forms.map((one) => one.action).join(', ')}`);
    return this.post(action, { ...form.fields, ...fields });
  }

  post(
    path: string,
    fields: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>> = { origin: this.#origin },
  ): Promise<Shown> {
    return this.#go('POST', path, new URLSearchParams(fields).toString(), headers);
  }

  /** One request and its answer, with what the browser would send of itself. */
  async once(
    method: 'GET' | 'POST',
    path: string,
    body?: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await request(`${this.#origin}${path}`, {
      dispatcher: this.#dispatcher,
      method,
      headers: {
        ...(cookie === '' ? {} : { cookie }),
        ...(body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
        ...headers,
      },
      body: body ?? null,
    });
    const html = await answer.body.text();
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) this.#keep(line);
    return { status: answer.statusCode, headers: answer.headers, html };
  }

  #keep(line: string): void {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
    if (/Max-Age=0|Expires=Thu, 01 Jan 1970/.test(line)) this.cookies.delete(name);
    else this.cookies.set(name, value);
  }

  async #go(
    method: 'GET' | 'POST',
    path: string,
    body?: string,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Shown> {
    const answer = await this.once(method, path, body, headers);
    const { location } = answer.headers;
    if (answer.status === 303 && typeof location === 'string') return this.#go('GET', location);
    const elements = [...walk(parse(answer.html))];
    return {
      ...answer,
      path,
      text: textOf(parse(answer.html)).replace(/\s+/g, ' '),
      forms: elements.filter(({ tagName }) => tagName === 'form').map(formOf),
      links: elements.filter(({ tagName }) => tagName === 'a').map((link) => attribute(link, 'href') ?? ''),
    };
  }
}

/** All elements of a page, in their order. */
export function* walk(node: Node): Generator<Element> {
  if ('tagName' in node) yield node;
  if ('childNodes' in node) for (const child of node.childNodes) yield* walk(child);
}

export const attribute = (element: Element, name: string) =>
  element.attrs.find((one) => one.name === name)?.value;

function formOf(form: Element): ShownForm {
  const inputs = [...walk(form)].filter(({ tagName }) => tagName === 'input' || tagName === 'select');
  const fields = inputs.map((input) => [attribute(input, 'name') ?? '', attribute(input, 'value') ?? '']);
  return { action: attribute(form, 'action') ?? '', fields: Object.fromEntries(fields) };
}

export function textOf(node: Node): string {
  if (node.nodeName === '#text' && 'value' in node) return node.value;
  return 'childNodes' in node ? node.childNodes.map(textOf).join(' ') : '';
}

/** A page without the one script that is to be in it. */
export const withoutOurs = (page: string): string =>
  page.replace(/<script src="\/assets\/[0-9a-f]{16}\/live\.js" defer><\/script>/, '');
