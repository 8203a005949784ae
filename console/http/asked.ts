import type { Request } from 'express';

/** A proxy's way to ask names a host before the path, which need be none. */
export const queryOf = ({ url }: Pick<Request, 'url'>): URLSearchParams =>
  new URLSearchParams(/\?(.*)$/s.exec(url)?.[1] ?? '');

/** Express hands out what it decoded; a list is no name. */
export const paramsOf = (request: Request): Record<string, string> =>
  Object.fromEntries(
    Object.entries(request.params).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
