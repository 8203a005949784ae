import type { Request } from 'express';

/** The query of a request. A target in the form for proxies has a host before the path, which need not be valid. */
export const queryOf = ({ url }: Pick<Request, 'url'>): URLSearchParams =>
  new URLSearchParams(/\?(.*)$/s.exec(url)?.[1] ?? '');

/** The parameters that Express decoded; a list is not accepted as a name. */
export const paramsOf = (request: Request): Record<string, string> =>
  Object.fromEntries(
    Object.entries(request.params).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );

/** Whether a window asks for a page, and not an image, a frame, or a page that updates itself. */
export function isForWindow({ headers }: Pick<Request, 'headers'>): boolean {
  const { 'sec-fetch-mode': mode = 'navigate', 'sec-fetch-dest': dest = 'document' } = headers;
  return mode === 'navigate' && dest === 'document';
}
