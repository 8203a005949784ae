import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { ServiceError } from '@space/broker-kit';
import type { ObjectCall } from '../objects/types.ts';
import { giveAway } from '../upstream/pieces.ts';
import { AT_ONCE } from '../upstream/relay.ts';

/**
 * The body of a request as a separate stream. HTTP clients destroy bodies that they no longer need, and the caller's
 * connection must survive that for the answer. The stream ends with the signal. While there are other Capsules, a long body
 * takes turns with theirs: every stage of its way works on a piece at once, and 2 MiB of a connection are read in a row.
 */
export function detach(
  request: IncomingMessage,
  { signal, passing }: Pick<ObjectCall, 'signal' | 'passing'>,
): Readable {
  /** Pieces that wait for their turn; they are few, since the caller is not read meanwhile. */
  const pieces: Buffer[] = [];
  let passed = 0;
  let waits = false;
  let ended = false;
  const body = new Readable({
    highWaterMark: 128 * 1024,
    read: () => proceed(),
    destroy: (error, done) => {
      pieces.length = 0;
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
      request.on('error', () => undefined);
      if (!request.complete) request.pause();
      done(error);
    },
  });
  /** Whether more may follow at once. */
  const pass = (piece: Buffer): boolean => {
    passed += piece.length;
    return body.push(giveAway(piece));
  };
  /** Continues with the next piece in its turn, with the end if there is none, or with reading the caller. */
  const proceed = () => {
    if (waits || body.destroyed) return;
    if (pieces.length > 0) {
      waits = true;
      passing.inTurn(passNext).catch((error: Error) => body.destroy(error));
    } else if (ended) body.push(null);
    else request.resume();
  };
  const passNext = () => {
    waits = false;
    const piece = pieces.shift();
    // A reader that takes nothing asks for more later.
    if (piece !== undefined && !body.destroyed && pass(piece)) proceed();
  };
  const onData = (piece: Buffer) => {
    if (pieces.length === 0 && (passed < AT_ONCE || !passing.isShared())) {
      if (!pass(piece)) request.pause();
      return;
    }
    pieces.push(piece);
    request.pause();
    proceed();
  };
  const onEnd = () => {
    ended = true;
    if (pieces.length === 0) body.push(null);
  };
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
