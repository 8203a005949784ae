import type { IncomingMessage } from 'node:http';
import { PageError } from './outcome.ts';

/** The fields of a form. Each name occurs once. */
export type Form = ReadonlyMap<string, string>;

const MOST_BYTES = 48 * 1024;
const MOST_FIELDS = 64;

/** Reads a form of the console; anything else is refused before it is parsed. */
export async function readForm(request: IncomingMessage): Promise<Form> {
  const type = request.headers['content-type']?.toLowerCase().replace(/\s/g, '');
  if (
    type !== 'application/x-www-form-urlencoded' &&
    type !== 'application/x-www-form-urlencoded;charset=utf-8'
  )
    throw new PageError(415, 'This is not a form of the console', 'Send the form from its page.');
  const text = await textOf(request);
  const form = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) {
    if (form.has(name) || form.size === MOST_FIELDS)
      throw new PageError(400, 'The form cannot be read', 'Open its page again and send it from there.');
    form.set(name, value);
  }
  return form;
}

/** Skips the rest of a body that is too long, so that its connection can be used for the next request. */
async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > MOST_BYTES) break;
      chunks.push(chunk);
    }
  } catch (cause) {
    throw new PageError(400, 'The form is incomplete', 'Send it again.', { cause });
  }
  if (length <= MOST_BYTES) return Buffer.concat(chunks).toString('utf8');
  request.on('error', () => undefined).resume();
  throw new PageError(413, 'The form is too large', `A form may have at most ${MOST_BYTES / 1024} KiB.`);
}
