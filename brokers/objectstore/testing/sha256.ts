import { createHash, createHmac } from 'node:crypto';

/** The hash that the AWS SDK's own signer is given. */
export class Sha256 {
  readonly #hash;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash =
      secret === undefined ? createHash('sha256') : createHmac('sha256', Buffer.from(secret as Uint8Array));
  }
  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(Buffer.from(data as Uint8Array));
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }
}
