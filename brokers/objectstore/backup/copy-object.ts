import { storedHeaders } from '../objects/object-headers.ts';
import { S3Error } from '../upstream/errors.ts';
import type { Head } from '../upstream/relay.ts';
import type { ListedObject } from '../upstream/types.ts';
import { type Entry, isState, labelOf, type ObjectState } from './entry.ts';
import { DestinationError, UnreadableError } from './errors.ts';
import type { NameTable } from './name-table.ts';
import { reading } from './reading.ts';
import { isAbsent } from './retrying.ts';
import type { Run } from './run.ts';
import type { Bytes } from './sealer.ts';

/**
 * Sizes of the destination's contents by name, of those that this run may need; copied contents are added. One that the newest point
 * names and the destination has no more is `ABSENT`.
 */
export type Contents = NameTable;
/** Shorter than any content. */
export const ABSENT = 0;

export interface Copied {
  readonly entry: Entry;
  /** Whether the bytes were copied now and not by an earlier run. */
  readonly isNew: boolean;
}

/** The object no longer has the requested state. */
class ChangedError extends Error {}

/**
 * Copies an object in one consistent state: as listed, or a newer one. After so many changes during the copy, or where the list has
 * none that a point may have, it is that of the next answer. Undefined if the object is gone, which only a list says: a server may
 * not find an object whose metadata is damaged.
 * @throws UnreadableError if it is listed and not returned
 */
export async function copyObject(
  run: Run,
  contents: Contents,
  listed: ObjectState,
  attempts: number,
): Promise<Copied | undefined> {
  let state: ObjectState | undefined = listed;
  for (let attempt = 0; attempt < attempts && state !== undefined && isState(state); attempt += 1) {
    try {
      return await copyState(run, contents, state);
    } catch (error) {
      if (!(error instanceof ChangedError) && !isChanged(error)) throw error;
      state = await currentState(run, listed.key);
    }
  }
  return state === undefined ? undefined : copyAnswered(run, contents, state.key);
}

/**
 * Copies an object that changes faster than its list is read, in the one state of an answer: without it the object would be
 * in no point, and without an anchor of custody the oldest registries would be trusted. The part size is left out, since it
 * would be that of another state.
 */
async function copyAnswered(run: Run, contents: Contents, key: string): Promise<Copied | undefined> {
  const { bucket, vault, signal } = run;
  try {
    return await reading(bucket, key, { signal }, async ({ headers }, body) => {
      const state = answeredState(key, headers);
      if (state === undefined) throw new UnreadableError(key);
      const { label, stored, name, isThere } = contentOf(run, contents, state);
      if (!isThere) {
        await vault.writeContent(name, labelled(label, body), label.length + state.size, signal);
        contents.set(name, stored);
      }
      return { entry: { ...state, headers: storedHeaders(headers), content: name, stored }, isNew: !isThere };
    });
  } catch (error) {
    if (error instanceof DestinationError || !isAbsent(error)) throw error;
    if ((await currentState(run, key)) !== undefined) throw new UnreadableError(key, { cause: error });
    return undefined;
  }
}

/** The state of an answer; undefined if its headers do not say all of it. */
function answeredState(key: string, headers: Head['headers']): ObjectState | undefined {
  const modified = new Date(headers['last-modified'] ?? '');
  const size = Number(headers['content-length']);
  const etag = headers['etag'] ?? '';
  if (etag === '' || !Number.isSafeInteger(size) || Number.isNaN(modified.getTime())) return undefined;
  return { key, etag, size, last_modified: modified.toISOString() };
}

export function stateOf({ key, etag, size, modified }: ListedObject): ObjectState {
  return { key, etag, size, last_modified: modified };
}

/** Reads the state from a list, since only a list has the time of change in the format of lists. Undefined if it has no such key. */
export async function currentState({ bucket, signal }: Run, key: string): Promise<ObjectState | undefined> {
  const { objects } = await bucket.list({ prefix: key, limit: 1 }, { signal });
  const [first] = objects;
  return first?.key === key ? stateOf(first) : undefined;
}

async function copyState(run: Run, contents: Contents, state: ObjectState): Promise<Copied> {
  const { bucket, vault, signal } = run;
  const same = { headers: { 'if-match': state.etag }, signal };
  const { label, stored, name, isThere } = contentOf(run, contents, state);
  const parts = await partSizeOf(run, state);
  const entryOf = ({ headers }: Head): Entry => ({
    ...state,
    headers: storedHeaders(headers),
    ...parts,
    content: name,
    stored,
  });
  if (isThere) {
    const head = await bucket.head(state.key, same);
    requireState(head, state);
    return { entry: entryOf(head), isNew: false };
  }
  const entry = await reading(bucket, state.key, same, async (head, body) => {
    requireState(head, state);
    const plain = labelled(label, body);
    await vault.writeContent(name, plain, label.length + state.size, signal);
    return entryOf(head);
  });
  contents.set(name, stored);
  return { entry, isNew: true };
}

/** The content of a state: how it begins, its length, its name, and whether an earlier run has copied it. */
function contentOf({ space, vault }: Run, contents: Contents, state: ObjectState) {
  const label = labelOf(space, state);
  const stored = vault.sealedLength(label.length + state.size);
  return { label, stored, ...nameIn(contents, stored, (n) => vault.nameOf(`${n}\n${label.toString()}`)) };
}

/**
 * The name for a state's content. It is always the same, so that contents of a killed run are found. A content of this
 * name with another length is damaged, and the next free name is used.
 */
function nameIn(
  contents: Contents,
  stored: number,
  nameOf: (n: number) => string,
): { readonly name: string; readonly isThere: boolean } {
  for (let n = 0; ; n += 1) {
    const name = nameOf(n);
    const there = contents.get(name) ?? ABSENT;
    if (there === ABSENT || there === stored) return { name, isThere: there !== ABSENT };
  }
}

/**
 * Checks that the read object has the state: a server may ignore conditions on reads, and an object may be written
 * again with the same bytes and other headers.
 */
function requireState({ headers }: Head, state: ObjectState): void {
  const modified = Date.parse(headers['last-modified'] ?? '');
  // Times in headers have whole seconds.
  const isOther = Math.abs(modified - Date.parse(state.last_modified)) > 1_000;
  if (headers['etag'] !== state.etag || headers['content-length'] !== String(state.size) || isOther)
    throw new ChangedError();
}

function isChanged(error: unknown): boolean {
  if (error instanceof DestinationError) return false;
  return isAbsent(error) || (error instanceof S3Error && error.status === 412);
}

async function* labelled(label: Buffer, body: Bytes): AsyncGenerator<Uint8Array> {
  yield label;
  yield* body;
}

/** The part size of a multipart object, if its parts have one size. */
async function partSizeOf(run: Run, state: ObjectState): Promise<{ readonly part_size?: number }> {
  const parts = Number(/-(\d{1,5})"?$/.exec(state.etag)?.[1] ?? 0);
  if (parts === 0) return {};
  try {
    const options = { part: 1, headers: { 'if-match': state.etag }, signal: run.signal };
    const size = Number((await run.bucket.head(state.key, options)).headers['content-length']);
    return size > 0 && Math.ceil(state.size / size) === parts ? { part_size: size } : {};
  } catch (error) {
    // The server does not support reading parts, so the object will be restored with another entity tag.
    if (error instanceof S3Error && error.kind === 'answered' && error.status < 500 && !isChanged(error))
      return {};
    throw error;
  }
}
