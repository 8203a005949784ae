import type { IncomingMessage } from 'node:http';
import { PageError } from './outcome.ts';

/** The fields of a form that was sent. Each name comes once. */
export type Form = ReadonlyMap<string, string>;

const MOST_BYTES = 48 * 1024;
const MOST_FIELDS = 64;

/** Reads what a form of ours sends; all else is refused before it is parsed. */
export async function readForm(request: IncomingMessage): Promise<Form> {
  const type = request.headers['content-type']?.toLowerCase().replace(/\s/g, '');
  if (
    type !== 'application/x-www-form-urlencoded' &&
    type !== 'application/x-www-form-urlencoded;charset=utf-8'
  )
    throw new PageError(415, 'This is not a form of the console', 'Send the form from its page.');
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MOST_BYTES)
      throw new PageError(413, 'The form holds too much', `A form may have ${MOST_BYTES / 1024} KiB.`);
    chunks.push(chunk);
  }
  const form = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(Buffer.concat(chunks).toString('utf8'))) {
    if (form.has(name) || form.size === MOST_FIELDS)
      throw new PageError(400, 'The form cannot be read', 'Open its page again and send it from there.');
    form.set(name, value);
  }
  return form;
}
