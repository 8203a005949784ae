import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keysOf } from '../brokers/objectstore/front/testing/clients.ts';
import { newAssistant } from '../brokers/objectstore/testing/assistant.ts';
import { setStage } from '../brokers/objectstore/testing/stage.ts';
import { ensureBuilt } from '../e2e/cluster/builds/go.ts';
import { withBoto3 } from './objectstore/compat/boto3.ts';
import { withRclone } from './objectstore/compat/rclone/run.ts';
import { withS3cmd } from './objectstore/compat/s3cmd.ts';
import { RCLONE } from './objectstore/contestants.ts';
import type { Report } from './report.ts';

/**
 * S3 clients that are not ours, unmodified, against the S3 front of the broker: boto3 and s3cmd from PyPI, rclone from
 * its Go module. The AWS SDK for JavaScript is in `npm test`. Needs `python3` with `pip`. Ends with 1 when a case fails.
 */

/** Nothing here takes long, so `--quick` changes nothing. */
export async function run(_options: { readonly quick: boolean }): Promise<Report> {
  const directory = mkdtempSync(join(tmpdir(), 'space-compat-'));
  const stage = await setStage();
  try {
    const { broker } = stage;
    const keys = async () => keysOf(await newAssistant(broker));
    const rclone = join(await ensureBuilt(RCLONE, { log: join(directory, 'build.log') }), 'rclone');
    const outcomes = [
      ...(await withBoto3(broker)),
      ...(await withRclone(rclone, directory, broker.dataUrl, await keys())),
      ...(await withS3cmd(directory, broker.dataUrl, await keys())),
    ];
    const failed = outcomes.filter((one) => one.failed !== undefined);
    if (failed.length > 0) process.exitCode = 1;
    return {
      title: 'S3 clients against the front',
      rows: ['boto3', 'rclone', 's3cmd'].map((by) => ({
        client: by,
        cases: outcomes.filter((one) => one.by === by).length,
        failed: failed.filter((one) => one.by === by).length,
      })),
      figures: { cases: outcomes.length, failed: failed.length },
      notes: failed.map((one) => `${one.by}: ${one.case}: ${one.failed}`),
    };
  } finally {
    await stage.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
