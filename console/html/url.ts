/** An address that a page of ours may lead to: a path of the console, or https outside. */
export class Url {
  readonly text: string;

  private constructor(text: string) {
    this.text = text;
  }

  /** A path of the console: what is put into it is one segment or one value of its query, whatever it holds. */
  static path(strings: TemplateStringsArray, ...values: readonly (string | number)[]): Url {
    const head = strings[0] ?? '';
    if (!/^\/(?!\/)/.test(head) || strings.some((piece) => !/^[a-zA-Z0-9/?&=._#-]*$/.test(piece)))
      throw new TypeError('a path of the console begins with one slash and holds plain characters');
    const parts = values.flatMap((value, index) => [segment(String(value)), strings[index + 1] ?? '']);
    return new Url([head, ...parts].join(''));
  }

  /** A place on the very page. */
  static here(id: string): Url {
    if (!/^[a-z][a-z0-9-]*$/.test(id)) throw new TypeError('not an id of a page of ours');
    return new Url(`#${id}`);
  }

  /** An https address without user information; undefined for anything else. */
  static external(text: string): Url | undefined {
    if (text.length > LONGEST || !URL.canParse(text)) return undefined;
    const url = new URL(text);
    const isPlain = url.protocol === 'https:' && url.username === '' && url.password === '';
    return isPlain ? new Url(url.href) : undefined;
  }

  /** For a form whose fields are the query. */
  withoutQuery(): Url {
    return new Url(this.text.replace(/[?#].*$/s, ''));
  }

  /** The host of an external address, as it is sent over the wire. */
  get host(): string {
    return new URL(this.text, 'https://console.invalid').host;
  }
}

const LONGEST = 2_048;

/** Dots alone are a step up, spelt with a percent sign as well: such a name leads to nothing. */
function segment(text: string): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  return /^\.+$/.test(encoded) ? encoded.replaceAll('.', '%252E') : encoded;
}
