import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { GatheredRequest, PIECE_COST, PIECE_MS, ServiceError } from '@space/broker-kit';
import type { ObjectCall } from '../objects/types.ts';
import { giveAway } from '../upstream/pieces.ts';
import { AT_ONCE } from '../upstream/relay.ts';

/**
 * The body of a request as a separate stream. HTTP clients destroy bodies that they no longer need, and the caller's
 * connection must survive that for the answer. The stream ends with the signal. While there are other Capsules, a long body
 * takes turns with theirs: every stage of its way works on a piece at once, and 2 MiB of a connection are read in a row. Small
 * pieces owe the time for which they were parsed, and no more of the connection is parsed before the turn.
 */
export function detach(
  request: IncomingMessage,
  { signal, passing }: Pick<ObjectCall, 'signal' | 'passing'>,
): Readable {
  /** Pieces of a segment that wait for their turn; they are few, since the caller is not read meanwhile. */
  const pieces: Buffer[] = [];
  const gathered = request instanceof GatheredRequest ? request : undefined;
  if (gathered) gathered.held = true;
  const smallPieces = () => gathered?.smallPieces ?? 0;
  /** Small pieces whose time was charged. */
  let paid = 0;
  let passed = 0;
  const isShort = () => passed + smallPieces() * PIECE_COST < AT_ONCE;
  let [waits, ended] = [false, false];
  const body = new Readable({
    highWaterMark: 128 * 1024,
    read: () => proceed(),
    destroy: (error, done) => {
      pieces.length = 0;
      if (gathered) gathered.held = false;
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
    if (pieces.length > 0) wait(passNext);
    else if (ended) body.push(null);
    else if (smallPieces() > paid && !isShort()) {
      const owedMs = (smallPieces() - paid) * PIECE_MS;
      paid = smallPieces();
      wait(readOn, owedMs);
    } else readOn();
  };
  const wait = (act: () => void, owedMs = 0) => {
    waits = true;
    passing.inTurn(act, owedMs).catch((error: Error) => body.destroy(error));
  };
  const readOn = () => {
    waits = false;
    if (pieces.length > 0) return proceed();
    if (gathered) gathered.held = false;
    request.resume();
  };
  const passNext = () => {
    waits = false;
    const piece = pieces.shift();
    // A reader that takes nothing asks for more later.
    if (piece !== undefined && !body.destroyed && pass(piece)) proceed();
  };
  const onData = (piece: Buffer) => {
    if (pieces.length === 0 && (isShort() || !passing.isShared())) {
      paid = smallPieces();
      if (!pass(piece)) request.pause();
      return;
    }
    pieces.push(piece);
    if (gathered) gathered.held = true;
    else request.pause();
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
