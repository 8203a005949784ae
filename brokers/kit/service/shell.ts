import { setTimeout as wait } from 'node:timers/promises';
import type { Listener } from '../listener.ts';
import type { Logger } from '../log.ts';
import { closeNow, portOf, type ServiceMetrics, serveMetrics } from '../metrics.ts';
import { closeAll, type Resources } from '../resources.ts';
import { type Phase, shutDown } from '../shutdown.ts';
import { type Round, startUpkeep, type Upkeep } from '../upkeep.ts';
import { type ListenerConfig, type ListenerPlan, openListeners } from './listeners.ts';

export interface ShellConfig extends ListenerConfig {
  readonly METRICS_PORT: number;
  readonly LEAVE_SECONDS: number;
}

/** A service with its keys read and its stores open, before it listens. */
export interface Plan<Ports extends string, Parts> {
  readonly metrics: ServiceMetrics;
  /** The listeners by the names of their ports in the log; they are opened in this order. */
  readonly listeners: Readonly<Record<Ports, ListenerPlan>>;
  /** The ports of listeners that the service has opened itself. */
  readonly otherPorts?: Readonly<Record<string, number>>;
  /** Rounds with their intervals. */
  readonly upkeep: readonly {
    readonly rounds: readonly Round[];
    readonly intervalMs: number;
    readonly onStart?: (upkeep: Upkeep) => void;
  }[];
  /**
   * Makes listeners that the service has opened itself end the connection with every answer; they still accept new
   * ones.
   */
  readonly leave?: () => void;
  /** Milliseconds in which running requests may end. */
  readonly requestsMs: number;
  /** Phases between the end of requests and the end of upkeep and files. */
  readonly leaving?: readonly Phase[];
  /** What the starter of the service gets, such as its context. */
  readonly parts: Parts;
}

/** A running service. */
export interface Shell<Ports extends string, Parts> {
  readonly ports: Readonly<Record<Ports | 'metricsPort', number>>;
  readonly parts: Parts;
  /** Reads the mounted files now. */
  refreshFiles(): Promise<void>;
  stop(): Promise<boolean>;
}

const LEAVE_ENDS_MS = 1_000;
const UPKEEP_ENDS_MS = 20_000;
const FILES_CLOSE_MS = 5_000;

/**
 * Starts what all services have, in this order: keys and stores (`open`), metrics, listeners, upkeep. At the end it
 * stops new connections, requests, upkeep and files. Callers are still sent here for a while after the process was told
 * to end, so it serves them during that time. If a part fails to start, everything that was opened before it is closed.
 */
export async function startShell<Ports extends string, Parts>(
  config: ShellConfig,
  log: Logger,
  open: (resources: Resources) => Promise<Plan<Ports, Parts>>,
): Promise<Shell<Ports, Parts>> {
  const resources: Resources = { closers: [], files: [] };
  try {
    const { metrics, upkeep, requestsMs, leaving = [], ...plan } = await open(resources);
    const address = { host: config.LISTEN_HOST, port: config.METRICS_PORT };
    const metricsServer = await serveMetrics(metrics.registry, address);
    resources.closers.push(() => closeNow(metricsServer));
    const { byPort, tls } = await openListeners(plan.listeners, config, { log, metrics, resources });
    const upkeeps = upkeep.map(({ onStart, ...group }) => {
      const started = startUpkeep({ ...group, log, metrics });
      onStart?.(started);
      return started;
    });
    const listeners = Object.entries<Listener>(byPort);
    const listening = Object.fromEntries(listeners.map(([port, { server }]) => [port, portOf(server)]));
    const ports = { ...plan.otherPorts, ...listening, metricsPort: portOf(metricsServer) };
    log.info({ ...ports, tls }, 'listening');
    const leaveMs = config.LEAVE_SECONDS * 1_000;
    const leave = async () => {
      for (const [, listener] of listeners) listener.leave();
      plan.leave?.();
      await wait(leaveMs);
    };
    const endRequests = async () => {
      await Promise.all(listeners.map(([, listener]) => listener.close()));
    };
    const endUpkeep = async () => {
      await Promise.all(upkeeps.map((started) => started.stop()));
    };
    return {
      ports: ports as Record<Ports | 'metricsPort', number>,
      parts: plan.parts,
      refreshFiles: async () => {
        for (const file of resources.files) await file.refresh();
      },
      stop: () =>
        shutDown(
          [
            { name: 'new connections', timeoutMs: leaveMs + LEAVE_ENDS_MS, run: leave },
            { name: 'requests', timeoutMs: requestsMs, run: endRequests },
            ...leaving,
            { name: 'upkeep', timeoutMs: UPKEEP_ENDS_MS, run: endUpkeep },
            { name: 'files and connections', timeoutMs: FILES_CLOSE_MS, run: () => closeAll(resources) },
          ],
          log,
        ),
    };
  } catch (error) {
    await closeAll(resources);
    throw error;
  }
}
