import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type Logger, traceIdOf } from '@space/broker-kit';
import type { Response } from 'express';
import type { Download } from './outcome.ts';

/** An archive is created in one minute at most, and the rest of it may be read in another. */
const PATIENCE_MS = 120_000;

/**
 * Sends a file while it is created. An error ends the connection, so that an incomplete file is not taken for a
 * complete one.
 */
export async function sendDownload(
  response: Response,
  { name, bytes, ended }: Download,
  log: Logger,
  patienceMs = PATIENCE_MS,
): Promise<void> {
  response.status(200).set({
    'content-type': 'application/gzip',
    'content-disposition': `attachment; filename="${name}"`,
  });
  try {
    const signal = AbortSignal.timeout(patienceMs);
    await pipeline(Readable.from(bytes), createGzip(), response, { signal });
  } catch (error) {
    log.info({ trace_id: traceIdOf(undefined), err: error }, 'a download ended early');
    response.destroy();
  } finally {
    ended();
  }
}
