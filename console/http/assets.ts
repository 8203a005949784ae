import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RequestHandler } from 'express';
import { Url } from '../html/url.ts';

/** Our one stylesheet, under a name that changes with it, so that a browser asks for each version once. */
export class Stylesheet {
  readonly url: Url;
  readonly #text: Buffer;

  constructor(text: Buffer) {
    this.#text = text;
    const digest = createHash('sha256').update(text).digest('hex').slice(0, 16);
    this.url = Url.path`/assets/${digest}/style.css`;
  }

  static read(): Stylesheet {
    // Beside the bundle in an image.
    const beside = join(import.meta.dirname, 'style.css');
    const path = existsSync(beside) ? beside : join(import.meta.dirname, '../html/style.css');
    return new Stylesheet(readFileSync(path));
  }

  serve(): RequestHandler {
    return (_request, response) => {
      response.set('cache-control', 'public, max-age=31536000, immutable');
      response.type('text/css').send(this.#text);
    };
  }
}
