/**
 * What a direction of a tunnel keeps in memory at most while its receiver takes nothing: Node stops writing, and then reading,
 * beyond 64 KiB, and a piece has as many.
 */
export const TUNNEL_STALL_BYTES = 256 * 1024;
/** The same of an answer with a stored input, with what was decrypted and what waits to be scrubbed: some 470 KiB were measured. */
export const ANSWER_STALL_BYTES = 512 * 1024;

/** Counts what is kept in memory for Capsules: bytes that a receiver does not take, or connections that nobody uses. */
export interface Stalls {
  /**
   * Begins to count so much for a Capsule, until the returned function is called. Of more than fit into memory, `end` is called of
   * what has waited for longest in the Capsule that keeps most.
   */
  begin(capsule: string, bytes: number, end: () => void): () => void;
}

interface Stall {
  readonly bytes: number;
  readonly end: () => void;
}

export function createStalls(mostBytes: number, onEnded: () => void): Stalls {
  /** In the order in which they began. */
  const byCapsule = new Map<string, { bytes: number; readonly stalls: Set<Stall> }>();
  let allBytes = 0;

  function remove(capsule: string, stall: Stall): void {
    const own = byCapsule.get(capsule);
    if (own?.stalls.delete(stall) !== true) return;
    own.bytes -= stall.bytes;
    allBytes -= stall.bytes;
    if (own.stalls.size === 0) byCapsule.delete(capsule);
  }

  function endOne(): void {
    let most: string | undefined;
    for (const [capsule, { bytes }] of byCapsule)
      if (most === undefined || bytes > (byCapsule.get(most)?.bytes ?? 0)) most = capsule;
    const [first] = byCapsule.get(most ?? '')?.stalls ?? [];
    if (most === undefined || first === undefined) return;
    remove(most, first);
    onEnded();
    first.end();
  }

  return {
    begin(capsule, bytes, end) {
      const stall = { bytes, end };
      const own = byCapsule.get(capsule) ?? { bytes: 0, stalls: new Set<Stall>() };
      byCapsule.set(capsule, own);
      own.stalls.add(stall);
      own.bytes += bytes;
      allBytes += bytes;
      while (allBytes > mostBytes) endOne();
      return () => remove(capsule, stall);
    },
  };
}
