import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { attempt } from './ask.ts';
import type { Attempt, Watch } from './watch.ts';

const Bucket = 'data';

/** Uploads an object in parts until it succeeds; returns the number of attempts. */
export async function uploadInParts(
  watch: Watch,
  way: () => S3Client,
  Key: string,
  parts: readonly Buffer[],
): Promise<number> {
  let failed = 0;
  const insist = async <T>(what: string, ask: () => Promise<Attempt<T>>): Promise<T> => {
    const { value, tries } = await watch.insist('writes', `${what} ${Key}`, ask);
    failed += tries - 1;
    return value;
  };
  for (;;) {
    const { UploadId } = await insist('begin an upload of', () =>
      attempt(() => way().send(new CreateMultipartUploadCommand({ Bucket, Key }))),
    );
    const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
    for (const [i, Body] of parts.entries()) {
      const PartNumber = i + 1;
      const part = await insist(`part ${PartNumber} of`, () =>
        unlessGone(() => way().send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body }))),
      );
      if (part === 'gone') break;
      Parts.push({ PartNumber, ETag: part.ETag });
    }
    if (Parts.length === parts.length) {
      const MultipartUpload = { Parts };
      const whole = await insist('complete', () =>
        unlessGone(() =>
          way().send(new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload })),
        ),
      );
      if (whole !== 'gone') return failed + 1;
    }
    // Its creation was answered, so only a lost node can have lost the upload; it is started again.
    failed += 1;
    watch.uploadsGone += 1;
  }
}

async function unlessGone<T>(call: () => Promise<T>): Promise<Attempt<T | 'gone'>> {
  const outcome = await attempt(call);
  return 'refused' in outcome && outcome.refused.code === 'NoSuchUpload' ? { value: 'gone' } : outcome;
}

/** Aborts every upload whose creation was not answered. */
export async function abortAll(watch: Watch, s3: S3Client): Promise<void> {
  const { value } = await watch.insist('reads', 'list uploads', () =>
    attempt(() => s3.send(new ListMultipartUploadsCommand({ Bucket }))),
  );
  for (const { Key, UploadId } of value.Uploads ?? [])
    await watch.insist('writes', `abort an upload of ${Key}`, () =>
      unlessGone(() => s3.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }))),
    );
}
