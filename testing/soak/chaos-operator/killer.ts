/** One run of a part. */
interface Running {
  kill(): Promise<void>;
  /** Ends it at the end of the soak; without this it is killed. */
  leave?(): Promise<void>;
  /** Resolves when the process has ended for any reason. */
  readonly gone: Promise<void>;
}

/** A part that is killed at random moments, and restarted at once as by a kubelet. */
export interface Killable {
  readonly name: string;
  /** Rejects if the part ended before it was ready, for example because another part was down; it is then started again. */
  readonly start: () => Promise<Running>;
  /** The average time that it runs before it is killed. */
  readonly meanRunMs: number;
}

export interface Killer {
  /** How often each part was killed. */
  readonly killed: Readonly<Record<string, number>>;
  /** Parts that ended without being killed. */
  readonly ended: readonly string[];
  /** Resolves when all kills are done and every part runs. */
  readonly over: Promise<void>;
  stop(): Promise<void>;
}

const START_AGAIN_MS = 200;

/** Kills parts until `kills` kills were done. Each part has its own random schedule, so that several may be down at once. */
export function killAtRandom(
  parts: readonly Killable[],
  kills: number,
  random: () => number,
  onFailedStart: (name: string, error: unknown) => void = () => {},
): Killer {
  const killed: Record<string, number> = Object.fromEntries(parts.map(({ name }) => [name, 0]));
  const ended: string[] = [];
  const up = new Map<string, Running>();
  let left = kills;
  /** Resolves with the last kill, so that nothing waits for the time of a further one. */
  const enough = Promise.withResolvers<void>();
  if (left <= 0) enough.resolve();
  let stopping = false;

  async function started({ name, start }: Killable): Promise<Running> {
    for (;;) {
      try {
        const running = await start();
        up.set(name, running);
        return running;
      } catch (error) {
        if (stopping) throw error;
        onFailedStart(name, error);
        await new Promise((resolve) => setTimeout(resolve, START_AGAIN_MS));
      }
    }
  }

  async function killAgainAndAgain(part: Killable): Promise<void> {
    let running = await started(part);
    while (left > 0 && !stopping) {
      const runMs = -Math.log(1 - random()) * part.meanRunMs;
      const byItself = await Promise.race([
        running.gone.then(() => true),
        Promise.race([wait(runMs), enough.promise]).then(() => false),
      ]);
      if (byItself) ended.push(part.name);
      else if (left > 0) {
        left -= 1;
        if (left === 0) enough.resolve();
        killed[part.name] = (killed[part.name] ?? 0) + 1;
        await running.kill();
      } else break;
      running = await started(part);
    }
  }

  const over = Promise.all(parts.map(killAgainAndAgain)).then(() => undefined);
  return {
    killed,
    ended,
    over,
    async stop() {
      stopping = true;
      enough.resolve();
      await over.catch(() => undefined);
      await Promise.all([...up.values()].map((running) => (running.leave ?? running.kill)()));
    },
  };
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
