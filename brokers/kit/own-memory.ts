/** Smaller pieces are not worth freeing. */
const LEAST_BYTES = 4 * 1024;

/** The memory of a piece that has it for itself, as those of the parser of HTTP have. */
export function memoryOf({ buffer, byteLength }: Uint8Array): ArrayBuffer | undefined {
  // A part of a larger buffer is not ours alone, and an empty piece may be a constant of the parser.
  const whole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  return whole && byteLength >= LEAST_BYTES ? buffer : undefined;
}

/**
 * Frees a piece whose reader has copied what it needs. It is memory outside of the heap, which the garbage collector counts as
 * growth: about every ten MiB of it would cause a full collection, for which everybody waits.
 */
export function free(piece: Uint8Array): void {
  memoryOf(piece)?.transfer(0);
}
