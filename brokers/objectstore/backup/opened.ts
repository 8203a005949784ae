import type { Bytes, Sealer } from './sealer.ts';

/**
 * Decrypts bytes as they are needed. An error of their source is thrown as it is, since it would pass for one of the decryption;
 * `wrong` makes the error for anything else.
 */
export async function* opened(
  sealer: Pick<Sealer, 'open'>,
  sealed: Bytes,
  wrong: (error: unknown) => Error,
): AsyncGenerator<Uint8Array> {
  const source = new Noting(sealed);
  try {
    yield* await sealer.open(source.bytes());
  } catch (error) {
    if (source.failure !== undefined) throw source.failure.error;
    throw wrong(error);
  }
}

/** Passes bytes on and notes the error of their source. */
class Noting {
  readonly #source: Bytes;
  failure: { readonly error: unknown } | undefined;

  constructor(source: Bytes) {
    this.#source = source;
  }

  async *bytes(): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#source;
    } catch (error) {
      this.failure = { error };
      throw error;
    }
  }
}
