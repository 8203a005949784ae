import { type ControllerOptions, runController } from './controller.ts';
import type { KubeObject } from './kube-object.ts';
import type { Health, Reflector } from './reflector.ts';

export interface ManagerOptions {
  readonly reflectors: Readonly<Record<string, Reflector<KubeObject>>>;
  readonly controllers: readonly ControllerOptions[];
  /** Until it resolves nothing is worked on, while the stores are already kept warm: the place of a lease. */
  readonly lead?: (signal: AbortSignal) => Promise<void>;
  /** Called when all work has ended, and before the watches do. */
  readonly release?: () => Promise<void>;
  /** So long what runs may go on when the manager is stopped; then it is told to end. */
  readonly graceMs?: number;
}

/** Far less than a pod has to end in, so that the lead is let go of in order. */
const GRACE_MS = 5_000;

export interface Manager {
  /** Whether the stores are filled: it works, or can begin to at once. */
  readonly warm: boolean;
  /** Whether the stores are filled and the controllers at work. */
  readonly ready: boolean;
  readonly health: () => Readonly<Record<string, Health>>;
  /** Resolves when the controllers have been started, or will never be. */
  readonly started: Promise<void>;
  /** Takes nothing new, lets what runs end for a moment and then ends it, then lets go of lead and watches. */
  stop(): Promise<void>;
}

/** Fills the stores, then leads, then works; and ends in the opposite order. */
export function startManager(options: ManagerOptions): Manager {
  const ending = new AbortController();
  /** Ends the wait for the lead; what was led already goes on until all work has ended. */
  const quitting = new AbortController();
  const halting = new AbortController();
  const quit = Promise.withResolvers<void>();
  quitting.signal.addEventListener('abort', () => quit.resolve());
  const reflectors = Object.values(options.reflectors);
  const watching = reflectors.map((reflector) => reflector.run(ending.signal));
  let warm = false;
  let ready = false;
  let working: Promise<void>[] = [];

  async function start(): Promise<void> {
    await Promise.race([Promise.all(reflectors.map((reflector) => reflector.synced)), quit.promise]);
    if (quitting.signal.aborted) return;
    warm = true;
    try {
      await options.lead?.(quitting.signal);
    } catch (error) {
      if (!quitting.signal.aborted) throw error;
    }
    if (quitting.signal.aborted) return;
    working = options.controllers.map((controller) => runController({ ...controller, halt: halting.signal }));
    ready = true;
  }
  const started = start();

  return {
    get warm() {
      return warm;
    },
    get ready() {
      return ready;
    },
    health: () =>
      Object.fromEntries(Object.entries(options.reflectors).map(([name, { health }]) => [name, health])),
    started,
    async stop() {
      warm = false;
      ready = false;
      for (const { queue } of options.controllers) queue.close();
      quitting.abort();
      await started.catch(() => undefined); // whoever started it hears of that
      const grace = setTimeout(
        () => halting.abort(new DOMException('the process is ending', 'AbortError')),
        options.graceMs ?? GRACE_MS,
      );
      await Promise.all(working);
      clearTimeout(grace);
      await options.release?.();
      ending.abort();
      await Promise.all(watching);
    },
  };
}
