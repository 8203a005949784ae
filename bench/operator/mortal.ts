/** One process of a part that is killed and started again. */
interface Life {
  kill(): Promise<void>;
  /** When all is over; where nothing is said, it is killed. */
  leave?(): Promise<void>;
  /** Resolves when the process has ended, by whatever. */
  readonly gone: Promise<void>;
}

/** A part that is killed at random moments, and started again at once as a kubelet would. */
export interface Mortal {
  readonly name: string;
  /** Rejects when it ended before it was up, as when what it needs is away: it is then tried again. */
  readonly start: () => Promise<Life>;
  /** How long it lives on average before it is killed. */
  readonly meanLifeMs: number;
}

export interface Doom {
  /** How often each part was killed. */
  readonly killed: Readonly<Record<string, number>>;
  /** Parts that ended although nobody had killed them. */
  readonly ended: readonly string[];
  /** Resolves when all kills are done and every part is up. */
  readonly over: Promise<void>;
  stop(): Promise<void>;
}

const START_AGAIN_MS = 200;

/** Kills until `kills` were done in all. Each part has its own rhythm, so that any two may be away together. */
export function doom(
  parts: readonly Mortal[],
  kills: number,
  random: () => number,
  onFailedStart: (name: string, error: unknown) => void = () => {},
): Doom {
  const killed: Record<string, number> = Object.fromEntries(parts.map(({ name }) => [name, 0]));
  const ended: string[] = [];
  const alive = new Map<string, Life>();
  let left = kills;
  /** Nobody waits for the end of a life that nobody will take. */
  const enough = Promise.withResolvers<void>();
  if (left <= 0) enough.resolve();
  let stopping = false;

  async function born({ name, start }: Mortal): Promise<Life> {
    for (;;) {
      try {
        const life = await start();
        alive.set(name, life);
        return life;
      } catch (error) {
        if (stopping) throw error;
        onFailedStart(name, error);
        await new Promise((resolve) => setTimeout(resolve, START_AGAIN_MS));
      }
    }
  }

  async function live(part: Mortal): Promise<void> {
    let life = await born(part);
    while (left > 0 && !stopping) {
      const lifeMs = -Math.log(1 - random()) * part.meanLifeMs;
      const byItself = await Promise.race([
        life.gone.then(() => true),
        Promise.race([wait(lifeMs), enough.promise]).then(() => false),
      ]);
      if (byItself) ended.push(part.name);
      else if (left > 0) {
        left -= 1;
        if (left === 0) enough.resolve();
        killed[part.name] = (killed[part.name] ?? 0) + 1;
        await life.kill();
      } else break;
      life = await born(part);
    }
  }

  const over = Promise.all(parts.map(live)).then(() => undefined);
  return {
    killed,
    ended,
    over,
    async stop() {
      stopping = true;
      enough.resolve();
      await over.catch(() => undefined);
      await Promise.all([...alive.values()].map((life) => (life.leave ? life.leave() : life.kill())));
    },
  };
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
