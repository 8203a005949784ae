/** Asks a server regularly whether it answers, so that no request has to wait for one that does not. */
export interface Pulse {
  answers(): boolean;
  /** Asks now; resolves with whether it answered. */
  ask(): Promise<boolean>;
  stop(): void;
}

interface PulseOptions {
  readonly intervalMs?: number;
  /** Milliseconds for one answer. */
  readonly timeoutMs?: number;
}

/** One unanswered question may be an ended connection; after two in a row the server counts as not answering. */
const MISSED = 2;

export function startPulse(
  question: () => Promise<unknown>,
  { intervalMs = 1_000, timeoutMs = 3_000 }: PulseOptions = {},
): Pulse {
  let missed = 0;
  let asking: Promise<boolean> | undefined;
  const ask = async (): Promise<boolean> => {
    missed = (await answeredWithin(question(), timeoutMs)) ? 0 : missed + 1;
    return missed < MISSED;
  };
  // A question that is still unanswered is not asked again.
  const askOnce = () => {
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    return asking;
  };
  const timer = setInterval(() => void askOnce(), intervalMs);
  timer.unref();
  return { answers: () => missed < MISSED, ask: askOnce, stop: () => clearInterval(timer) };
}

/** Whether it resolves in time; never rejects. */
async function answeredWithin(answer: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), ms);
  const answered = answer.then(
    () => true,
    () => false,
  );
  try {
    return await Promise.race([answered, late]);
  } finally {
    clearTimeout(timer);
  }
}
