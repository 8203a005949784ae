import { at, type Json, MIB, type Outcome, on, type Params, type Step, step } from './case.ts';

/** The calls of an upload in parts; its id and the tags of its parts are kept under `id` and `partN`. */

/** The bytes of every part but the last. */
export const LEAST = 5 * MIB;
export const begin = (key: string, params: Params = {}): Step =>
  step('CreateMultipartUpload', { Key: at(key), ...params }, { keep: { id: 'UploadId' } });
export const part = (
  key: string,
  PartNumber: number,
  Body: Json,
  outcome: Outcome = {},
  params: Params = {},
): Step =>
  step(
    'UploadPart',
    { Key: at(key), UploadId: '{id}', PartNumber, Body, ...params },
    { keep: outcome.refused === undefined ? { [`part${PartNumber}`]: 'ETag' } : {}, ...outcome },
  );
export const complete = (
  key: string,
  numbers: readonly number[],
  outcome: Outcome = {},
  params: Params = {},
): Step => {
  const Parts = numbers.map((PartNumber) => ({ PartNumber, ETag: `{part${PartNumber}}` }));
  return finish(key, Parts, outcome, params);
};
export const finish = (
  key: string,
  Parts: readonly Json[],
  outcome: Outcome = {},
  params: Params = {},
): Step =>
  step(
    'CompleteMultipartUpload',
    { Key: at(key), UploadId: '{id}', MultipartUpload: { Parts }, ...params },
    outcome,
  );
export const abort = (key: string, outcome: Outcome = {}): Step =>
  step('AbortMultipartUpload', { Key: at(key), UploadId: '{id}' }, outcome);
export const parts = on('ListParts');
export const uploads = (params: Params, Uploads: Json, outcome: Outcome = {}): Step =>
  step(
    'ListMultipartUploads',
    { Prefix: '{home}/', ...params },
    { ...outcome, gives: { Uploads, ...outcome.gives } },
  );
