import type { Request } from 'express';

export const queryOf = (request: Request) => new URL(request.url, 'https://console.invalid').searchParams;

/** Express hands out what it decoded; a list is no name. */
export const paramsOf = (request: Request): Record<string, string> =>
  Object.fromEntries(
    Object.entries(request.params).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
