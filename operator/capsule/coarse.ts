/** A usage counts as current for this long, in milliseconds, which is less than the time between two sweeps. */
export const USAGE_MS = 420_000;

const MEBIBYTE = 2 ** 20;
/** The status shows usage in steps of a twentieth of the limit, so that it is not written after every change. */
const STEPS = 20;

/** The usage as a quantity, in steps; `shownBefore` is the value in the status. */
export function coarse(
  { usedBytes, limitBytes }: { readonly usedBytes: number; readonly limitBytes: number },
  shownBefore: number | undefined,
): string {
  return stepped(
    usedBytes,
    Math.max(MEBIBYTE, Math.ceil(limitBytes / STEPS / MEBIBYTE) * MEBIBYTE),
    shownBefore,
  );
}

/** The same for a usage without a limit: the step is at most an eighth of the usage. */
export function coarseAlone(usedBytes: number, shownBefore: number | undefined): string {
  const step = 2 ** (Math.floor(Math.log2(Math.max(1, usedBytes))) - 3);
  return stepped(usedBytes, Math.max(MEBIBYTE, step), shownBefore);
}

function stepped(usedBytes: number, step: number, shownBefore: number | undefined): string {
  const shown = Math.ceil(usedBytes / step) * step;
  // A value at the edge of two steps keeps its step.
  const near = shownBefore !== undefined && shownBefore % step === 0 && shownBefore - shown === step;
  return quantity(near && usedBytes > shown - step / 2 ? shownBefore : shown);
}

export function quantity(bytes: number): string {
  for (const [suffix, size] of [
    ['Gi', 2 ** 30],
    ['Mi', MEBIBYTE],
    ['Ki', 2 ** 10],
  ] as const)
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${suffix}`;
  return String(bytes);
}
