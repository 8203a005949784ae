import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RequestHandler } from 'express';
import { Url } from '../html/url.ts';

const SOURCES = join(import.meta.dirname, '../html');
/** In an image the files are beside the bundle. */
const OURS = existsSync(SOURCES) ? SOURCES : import.meta.dirname;

/** A file that pages load, with a name that changes with its content, so that a browser requests each version once. */
class Asset {
  readonly url: Url;
  readonly #text: Buffer;
  readonly #type: string;

  constructor(folder: string, name: string, type: string) {
    this.#text = readFileSync(join(folder, name));
    this.#type = type;
    const digest = createHash('sha256').update(this.#text).digest('hex').slice(0, 16);
    this.url = Url.path`/assets/${digest}/${name}`;
  }

  serve(): RequestHandler {
    return (_request, response) => {
      response.set('cache-control', 'public, max-age=31536000, immutable');
      response.type(this.#type).send(this.#text);
    };
  }
}

export interface Assets {
  readonly stylesheet: Asset;
  /** Updates a page while it is open; pages work without it. */
  readonly script: Asset;
}

export const readAssets = (folder = OURS): Assets => ({
  stylesheet: new Asset(folder, 'style.css', 'text/css'),
  script: new Asset(folder, 'live.js', 'text/javascript'),
});
