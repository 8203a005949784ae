/** Whether a server answers, asked again and again so that nobody else need wait for one that does not. */
export interface Pulse {
  answers(): boolean;
  /** Asks now. */
  ask(): Promise<boolean>;
  stop(): void;
}

interface PulseOptions {
  readonly intervalMs?: number;
  /** How long one answer may take. */
  readonly timeoutMs?: number;
}

/** One lost question is a connection that was ended; two in a row are a server that does not answer. */
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
  // A question that still waits is not asked a second time.
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

/** Whether it resolves in time; it is never rejected. */
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
