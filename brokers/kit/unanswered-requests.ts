import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { hearNoMore } from './hear-no-more.ts';

/**
 * Ends a connection on which a request arrives before the previous one was answered. Useful clients do not do that, and
 * one segment from a caller without a credential could contain a thousand requests.
 */
export class UnansweredRequests {
  readonly #answers = new WeakMap<Duplex, ServerResponse>();
  readonly #onPipelined: () => void;

  constructor(onPipelined: () => void = () => undefined) {
    this.#onPipelined = onPipelined;
  }

  /** Whether a new request is the only one on its connection; otherwise the connection is ended. */
  isNext(socket: Socket): boolean {
    if (!this.#answers.has(socket)) return true;
    if (!socket.destroyed) this.#onPipelined();
    hearNoMore(socket);
    socket.destroy();
    return false;
  }

  begins(socket: Socket, response: ServerResponse): void {
    this.#answers.set(socket, response);
    response.once('close', () => socket.destroyed || this.#answers.delete(socket));
  }

  /** Whether an answer has begun and not ended, so that anything else that is written would become a part of it. */
  isAnswering(socket: Duplex): boolean {
    return this.#answers.get(socket)?.headersSent ?? false;
  }
}
