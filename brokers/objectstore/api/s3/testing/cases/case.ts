/**
 * A case of S3 that any SDK can play: the calls by the API's own names, and what must come back. The same table is
 * played by the AWS SDK for JavaScript (`../sdk.ts`) and, as JSON, by boto3 (`../play.py`).
 */

export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };
export type Params = Readonly<Record<string, Json>>;

export interface Case {
  readonly name: string;
  readonly steps: readonly Step[];
}

/**
 * One call. In every string `{home}` is the case's own prefix and `{name}` what an earlier step kept; a string that is
 * nothing but `{name}` stands for the kept value itself. Among parameters `{ $bytes: n, $from?: k }` stands for a body,
 * and `{ $date: text }` for a time.
 */
export interface Step {
  /** The operation as the API names it: `PutObject`. */
  readonly call: string;
  readonly with: Params;
  readonly as: 'me' | 'neighbour' | 'stranger';
  /**
   * What the answer holds, in part: objects by what is named, lists whole, null for what is not there. Besides
   * `$bytes`: `{ $match: expression }`, `{ $decoded: text }` for what is percent-encoded, `{ $date: "any" }`.
   */
  readonly gives: Params;
  /** `404 NoSuchKey`, or only the status where the answer has no body. */
  readonly refused?: string;
  /** Names for values of the answer, by their path in it. */
  readonly keep: Readonly<Record<string, string>>;
}

export type Outcome = Partial<Pick<Step, 'as' | 'gives' | 'refused' | 'keep'>>;

export const MIB = 1024 * 1024;
export const at = (key: string): string => `{home}/${key}`;
export const refused = (code: string): Outcome => ({ refused: code });
export const gives = (answer: Params): Outcome => ({ gives: answer });

/** A call about a bucket, `data` unless another is named. */
export function step(call: string, params: Params = {}, outcome: Outcome = {}): Step {
  return { call, with: { Bucket: 'data', ...params }, as: 'me', gives: {}, keep: {}, ...outcome };
}

/** A call about an object in the case's own place. */
export const on =
  (call: string) =>
  (key: string, params: Params = {}, outcome: Outcome = {}): Step =>
    step(call, { Key: at(key), ...params }, outcome);

export const get = on('GetObject');
export const head = on('HeadObject');
export const remove = on('DeleteObject');

export const put = (key: string, Body: Json, params: Params = {}, outcome: Outcome = {}): Step =>
  step('PutObject', { Key: at(key), Body, ...params }, outcome);

/** Reads it and compares. */
export const holds = (key: string, Body: Json, params: Params = {}): Step =>
  get(key, params, gives({ Body }));

/** The source as plain text: `bucket/key`. */
export const copy = (from: string, to: string, params: Params = {}, outcome: Outcome = {}): Step =>
  step('CopyObject', { Key: at(to), CopySource: `data/${at(from)}`, ...params }, outcome);

export function list(params: Params, names: readonly string[], outcome: Outcome = {}): Step {
  const Contents = names.length === 0 ? null : names.map((name) => ({ Key: at(name) }));
  return step('ListObjectsV2', params, { ...outcome, gives: { Contents, ...outcome.gives } });
}

/** Bytes that every client generates in the same way. */
export function bytes(size: number, from = 0): Buffer {
  return Buffer.alloc(from + size, BLOCK).subarray(from);
}

/** A prime number of bytes, so that no two ranges of a size that matters are equal. */
const BLOCK = Buffer.from(Array.from({ length: 1_021 }, (_, i) => (i * i + 7 * i) >> 3));
