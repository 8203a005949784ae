import { z } from 'zod';

/** An object of the Space's bucket in one whole state. */
export interface ObjectState {
  readonly key: string;
  /** With its quotation marks. */
  readonly etag: string;
  /** Bytes. */
  readonly size: number;
  /** The time in the server's list, ISO 8601. */
  readonly last_modified: string;
}

/** A line of a point: a state, what comes back with its bytes, and where these are. */
export interface Entry extends ObjectState {
  readonly headers: Readonly<Record<string, string>>;
  /** The parts that it was uploaded in were so large, so that in the same parts it gets the same entity tag. */
  readonly part_size?: number | undefined;
  /** The name of its encrypted content. */
  readonly content: string;
  /** Bytes of that content, encrypted. */
  readonly stored: number;
}

export interface PointHeader {
  readonly format: 1;
  readonly space: string;
  /** ISO 8601, by the clock of the run that made it. */
  readonly started: string;
  readonly finished: string;
  readonly objects: number;
  readonly bytes: number;
}

export const FORMAT = 1;

const count = z.number().int().min(0);
const time = z.iso.datetime({ offset: true });

export const entrySchema: z.ZodType<Entry> = z.strictObject({
  key: z.string().min(1),
  etag: z.string().min(1),
  size: count,
  last_modified: time,
  headers: z.record(z.string(), z.string()),
  part_size: z.number().int().min(1).optional(),
  content: z.string().regex(/^[0-9a-f]{64}$/),
  stored: count,
});

/** What every format has in its header, so that one of another format can be told. */
export const anyHeaderSchema = z.looseObject({ format: z.number(), space: z.string() });

export const headerSchema: z.ZodType<PointHeader> = z.strictObject({
  format: z.literal(FORMAT),
  space: z.string(),
  started: time,
  finished: time,
  objects: count,
  bytes: count,
});

export function isSameState(a: ObjectState, b: ObjectState): boolean {
  return a.key === b.key && a.etag === b.etag && a.size === b.size && a.last_modified === b.last_modified;
}

/**
 * What a content begins with, before the object's bytes: whose it is. A content that somebody put in the place of another
 * begins otherwise than its line in the point says.
 */
export function labelOf(space: string, state: ObjectState): Buffer {
  const { key, etag, size, last_modified } = state;
  return Buffer.from(`${JSON.stringify({ format: FORMAT, space, key, etag, size, last_modified })}\n`);
}
