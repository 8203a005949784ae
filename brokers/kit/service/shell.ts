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

/** What a service is once its keys are read and its stores are open, and before it listens. */
export interface Plan<Ports extends string, Parts> {
  readonly metrics: ServiceMetrics;
  /** The listeners, by the names that the log has for their ports; they are opened in this order. */
  readonly listeners: Readonly<Record<Ports, ListenerPlan>>;
  /** The ports of listeners that the service has opened itself. */
  readonly otherPorts?: Readonly<Record<string, number>>;
  /** Rounds by their interval. */
  readonly upkeep: readonly {
    readonly rounds: readonly Round[];
    readonly intervalMs: number;
    readonly onStart?: (upkeep: Upkeep) => void;
  }[];
  /** Has listeners that the service has opened itself end the connection with every answer, and take new ones. */
  readonly leave?: () => void;
  /** How long requests that run may take to end. */
  readonly requestsMs: number;
  /** What ends after the requests and before upkeep and files. */
  readonly leaving?: readonly Phase[];
  /** What whoever started the service wants of it. */
  readonly parts: Parts;
}

/** A service that runs. */
export interface Shell<Ports extends string, Parts> {
  readonly ports: Readonly<Record<Ports | 'metricsPort', number>>;
  readonly parts: Parts;
  /** Looks at the mounted files now instead of in a moment. */
  refreshFiles(): Promise<void>;
  stop(): Promise<boolean>;
}

const LEAVE_ENDS_MS = 1_000;
const UPKEEP_ENDS_MS = 20_000;
const FILES_CLOSE_MS = 5_000;

/**
 * What all services have alike, in this order: keys and stores (`open`), metrics, listeners, upkeep; and at the end
 * new connections, requests, upkeep, files. Who sends callers here learns of the end when this process does, so they come
 * for a while. Whatever fails on the way up closes what was opened before it.
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
