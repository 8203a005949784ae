import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { ServiceError } from '@space/broker-kit';
import { giveAway } from '../upstream/pieces.ts';

/**
 * The body of a request as a separate stream. HTTP clients destroy bodies that they no longer need, and the caller's
 * connection must survive that for the answer. The stream ends with the signal.
 */
export function detach(request: IncomingMessage, signal: AbortSignal): Readable {
  const body = new Readable({
    highWaterMark: 128 * 1024,
    read: () => void request.resume(),
    destroy: (error, done) => {
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
      request.on('error', () => undefined);
      if (!request.complete) request.pause();
      done(error);
    },
  });
  const onData = (chunk: Buffer) => {
    if (!body.push(giveAway(chunk))) request.pause();
  };
  const onEnd = () => void body.push(null);
  const onClose = () => {
    if (!request.complete) body.destroy(new ServiceError('invalid_request', 'body cut short'));
  };
  request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
  request.pause();
  signal.addEventListener('abort', () => body.destroy(), { once: true });
  // Readers add their own listener; without any, an error would end the process.
  body.on('error', () => undefined);
  return body;
}
