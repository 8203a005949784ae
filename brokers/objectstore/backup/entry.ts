import { z } from 'zod';

/** One consistent state of an object of the Space's bucket. */
export interface ObjectState {
  readonly key: string;
  /** Including its quotation marks. */
  readonly etag: string;
  /** The size in bytes. */
  readonly size: number;
  /** The time in the server's list, in ISO 8601. */
  readonly last_modified: string;
}

/** A line of a point: an object's state, the headers that are restored with its bytes, and the name of its content. */
export interface Entry extends ObjectState {
  readonly headers: Readonly<Record<string, string>>;
  /** The size of the parts that it was uploaded in: with the same parts it gets the same entity tag again. */
  readonly part_size?: number | undefined;
  /** The name of its encrypted content. */
  readonly content: string;
  /** The size of the encrypted content in bytes. */
  readonly stored: number;
}

export interface PointHeader {
  readonly format: 1;
  readonly space: string;
  /** When the run began by its own clock, in ISO 8601. */
  readonly started: string;
  readonly finished: string;
  readonly objects: number;
  readonly bytes: number;
}

export const FORMAT = 1;
/** The name of a content: a keyed hash. */
export const CONTENT_NAME = /^[0-9a-f]{64}$/;

const count = z.number().int().min(0);
const time = z.iso.datetime({ offset: true });

const state = {
  key: z.string().min(1),
  etag: z.string().min(1),
  size: count,
  last_modified: time,
};
const stateSchema: z.ZodType<ObjectState> = z.strictObject(state);

/** Whether a state may be in a point: with any other one, the whole point could not be restored. */
export function isState(given: ObjectState): boolean {
  return stateSchema.safeParse(given).success;
}

export const entrySchema: z.ZodType<Entry> = z.strictObject({
  ...state,
  headers: z.record(z.string(), z.string()),
  part_size: z.number().int().min(1).optional(),
  content: z.string().regex(CONTENT_NAME),
  stored: count,
});

/** The header fields that every format has, by which another format is recognised. */
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
 * The beginning of a content before the object's bytes, which identifies the object. A content that was exchanged for
 * another has a label that differs from its entry.
 */
export function labelOf(space: string, state: ObjectState): Buffer {
  const { key, etag, size, last_modified } = state;
  return Buffer.from(`${JSON.stringify({ format: FORMAT, space, key, etag, size, last_modified })}\n`);
}
