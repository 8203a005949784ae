import { type ControllerOptions, runController } from './controller.ts';
import type { KubeObject } from './kube-object.ts';
import type { Health, Reflector } from './reflector.ts';

export interface ManagerOptions {
  readonly reflectors: Readonly<Record<string, Reflector<KubeObject>>>;
  readonly controllers: readonly ControllerOptions[];
  /** Resolves when this process leads. No key is reconciled before, but the stores are kept current. */
  readonly lead?: (signal: AbortSignal) => Promise<void>;
  /** Called when all reconciles have ended, before the watches stop. */
  readonly release?: () => Promise<void>;
  /** Milliseconds that running reconciles have at a stop before they are aborted. */
  readonly graceMs?: number;
}

/**
 * Longer than a reconcile takes whose calls are answered. Until the Lease is released nobody leads, and any reconcile may be
 * aborted.
 */
const GRACE_MS = 2_000;

export interface Manager {
  /** Whether the stores are filled, so that the process works or can begin at once. */
  readonly warm: boolean;
  /** Whether the stores are filled and the controllers run. */
  readonly ready: boolean;
  readonly health: () => Readonly<Record<string, Health>>;
  /** Resolves when the controllers have started, or when it is certain that they never will. */
  readonly started: Promise<void>;
  /**
   * Takes no new keys, lets running reconciles end and aborts them after the grace time, then releases the Lease and
   * stops the watches.
   */
  stop(): Promise<void>;
}

/** Fills the stores, waits for the lead, then starts the controllers; a stop happens in the opposite order. */
export function startManager(options: ManagerOptions): Manager {
  const ending = new AbortController();
  /** Ends the wait for the lead. A lead that is held continues until all reconciles have ended. */
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
      await started.catch(() => undefined); // the caller of `start` gets this error
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
