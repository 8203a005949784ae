import { Transform, type TransformCallback } from 'node:stream';
import { ServiceError } from '@space/broker-kit';

/** Looks at a body as it passes and says at its end whether it is the one that was announced. */
export interface Inspection {
  update(data: Buffer): void;
  /** Throws a ServiceError. */
  finish(): void;
}

/**
 * Passes a body on, its last piece only when everything was found right: an upstream that was promised a length
 * stores nothing when the end is missing.
 */
export class VerifiedBody extends Transform {
  readonly #length: number;
  readonly #inspections: readonly Inspection[];
  #held: Buffer | undefined;
  #seen = 0;

  constructor(length: number, inspections: readonly Inspection[]) {
    super({ highWaterMark: 128 * 1024 });
    this.#length = length;
    this.#inspections = inspections;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#seen += chunk.length;
    if (this.#seen > this.#length) {
      done(new ServiceError('invalid_request', 'longer than announced'));
      return;
    }
    for (const inspection of this.#inspections) inspection.update(chunk);
    if (this.#held !== undefined) this.push(this.#held);
    this.#held = chunk;
    done();
  }

  override _flush(done: TransformCallback): void {
    try {
      if (this.#seen !== this.#length) throw new ServiceError('invalid_request', 'shorter than announced');
      for (const inspection of this.#inspections) inspection.finish();
      if (this.#held !== undefined) this.push(this.#held);
      done();
    } catch (error) {
      done(error as Error);
    }
  }
}
