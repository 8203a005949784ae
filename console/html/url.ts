/** An address that pages may link to: a path of the console, or an external https address. */
export class Url {
  readonly text: string;

  private constructor(text: string) {
    this.text = text;
  }

  /** A path of the console. Each value becomes one segment or one value of the query, whatever it contains. */
  static path(strings: TemplateStringsArray, ...values: readonly (string | number)[]): Url {
    const head = strings[0] ?? '';
    if (!/^\/(?!\/)/.test(head) || strings.some((piece) => !/^[a-zA-Z0-9/?&=._#-]*$/.test(piece)))
      throw new TypeError('a path of the console begins with one slash and holds plain characters');
    const parts = values.flatMap((value, index) => [segment(String(value)), strings[index + 1] ?? '']);
    return new Url([head, ...parts].join(''));
  }

  /** A place on the same page. */
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

  /** For a form whose fields become the query. */
  withoutQuery(): Url {
    return new Url(this.text.replace(/[?#].*/s, ''));
  }

  /** The host of an external address, as it is sent over the wire. */
  get host(): string {
    return new URL(this.text, 'https://console.invalid').host;
  }
}

const LONGEST = 2_048;

/** A name of dots only means the parent, even if escaped; such a name leads to nothing. */
function segment(text: string): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  return /^\.+$/.test(encoded) ? encoded.replaceAll('.', '%252E') : encoded;
}
