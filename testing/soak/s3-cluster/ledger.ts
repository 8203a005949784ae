/** The content of an object. */
export interface Content {
  readonly sha256: string;
  readonly size: number;
}

/**
 * Records what one caller was answered about the keys that only it writes. A write without a good answer is repeated until it has
 * one; its key is then not written again, since the failed attempt may take effect later, with the same content.
 */
export class Ledger {
  readonly #there = new Map<string, Content>();
  readonly #gone = new Set<string>();
  readonly #doubted = new Set<string>();

  stored(key: string, content: Content, tries: number): void {
    this.#there.set(key, content);
    this.#gone.delete(key);
    if (tries > 1) this.#doubted.add(key);
  }

  deleted(key: string, tries: number): void {
    this.#there.delete(key);
    this.#gone.add(key);
    if (tries > 1) this.#doubted.add(key);
  }

  /** Undefined if the object was deleted or never existed. */
  at(key: string): Content | undefined {
    return this.#there.get(key);
  }

  /** The keys of existing objects below the prefix, in the order of their bytes. */
  keys(prefix = ''): readonly string[] {
    return [...this.#there.keys()].filter((key) => key.startsWith(prefix)).sort();
  }

  /** The keys of existing objects that may be written again. */
  writable(): readonly string[] {
    return [...this.#there.keys()].filter((key) => !this.#doubted.has(key));
  }

  gone(): readonly string[] {
    return [...this.#gone];
  }

  get bytes(): number {
    return [...this.#there.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** What is wrong with an answer to a GET; `found` is undefined for a 404. */
  judgeRead(key: string, found: Content | undefined): string | undefined {
    const known = this.#there.get(key);
    if (known === undefined)
      return found === undefined ? undefined : `${key} was deleted, but exists with ${found.size} bytes`;
    if (found === undefined) return `${key} was stored, but does not exist`;
    return found.sha256 === known.sha256 && found.size === known.size
      ? undefined
      : `${key} has other content: ${found.size} bytes instead of ${known.size}`;
  }

  /** What is wrong with a complete list of a prefix. */
  judgeList(
    prefix: string,
    listed: readonly { readonly key: string; readonly size: number }[],
  ): readonly string[] {
    const found = new Map(listed.map(({ key, size }) => [key, size]));
    const wrong = this.keys(prefix)
      .filter((key) => found.get(key) !== this.#there.get(key)?.size)
      .map(
        (key) =>
          `${key} was stored with ${this.#there.get(key)?.size} bytes, but is listed with ${found.get(key)}`,
      );
    for (const key of found.keys())
      if (!this.#there.has(key))
        wrong.push(`${key} is listed, but ${this.#gone.has(key) ? 'was deleted' : 'was never stored'}`);
    return wrong;
  }
}
