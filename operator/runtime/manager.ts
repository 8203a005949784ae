import { type ControllerOptions, runController } from './controller.ts';
import type { KubeObject } from './objects.ts';
import type { Health, Reflector } from './reflector.ts';

export interface ManagerOptions {
  readonly reflectors: Readonly<Record<string, Reflector<KubeObject>>>;
  readonly controllers: readonly ControllerOptions[];
  /** Until it resolves nothing is worked on, while the stores are already kept warm: the place of a lease. */
  readonly lead?: (signal: AbortSignal) => Promise<void>;
}

export interface Manager {
  /** Whether the stores are filled and the controllers at work. */
  readonly ready: boolean;
  readonly health: () => Readonly<Record<string, Health>>;
  /** Resolves when the controllers have been started, or will never be. */
  readonly started: Promise<void>;
  /** Takes nothing new, lets what runs end, then lets go of the watches. */
  stop(): Promise<void>;
}

/** Fills the stores, then leads, then works; and ends in the opposite order. */
export function startManager(options: ManagerOptions): Manager {
  const ending = new AbortController();
  const ended = Promise.withResolvers<void>();
  ending.signal.addEventListener('abort', () => ended.resolve());
  const reflectors = Object.values(options.reflectors);
  const watching = reflectors.map((reflector) => reflector.run(ending.signal));
  let ready = false;
  let working: Promise<void>[] = [];

  async function start(): Promise<void> {
    const filled = Promise.all(reflectors.map((reflector) => reflector.synced));
    await Promise.race([filled.then(() => options.lead?.(ending.signal)), ended.promise]);
    if (ending.signal.aborted) return;
    working = options.controllers.map(runController);
    ready = true;
  }
  const started = start();

  return {
    get ready() {
      return ready;
    },
    health: () =>
      Object.fromEntries(Object.entries(options.reflectors).map(([name, { health }]) => [name, health])),
    started,
    async stop() {
      ready = false;
      for (const { queue } of options.controllers) queue.close();
      await Promise.all(working);
      ending.abort();
      await Promise.all(watching);
    },
  };
}
