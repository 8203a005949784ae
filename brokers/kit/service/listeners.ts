import { type Listener, type ListenOptions, listen, type Served } from '../listener.ts';
import type { Logger } from '../log.ts';
import { closeNow, type ServiceMetrics } from '../metrics.ts';
import { keepFile, type Resources } from '../resources.ts';
import { countTlsExpiry, watchTls } from '../tls.ts';

/** What listeners read of the environment. */
export interface ListenerConfig {
  readonly LISTEN_HOST?: string | undefined;
  readonly TLS_CERT_FILE?: string | undefined;
  readonly TLS_KEY_FILE?: string | undefined;
  readonly CONNECTIONS: number;
  readonly CONNECTIONS_PER_ADDRESS: number;
}

export interface ListenerPlan extends Pick<ListenOptions, 'name' | 'port' | 'limits'> {
  readonly served: Served;
}

export interface OpenListeners<Ports extends string> {
  readonly byPort: Readonly<Record<Ports, Listener>>;
  readonly tls: boolean;
}

/** Opens listeners in the order of the plans, with one certificate that follows its files. */
export async function openListeners<Ports extends string>(
  plans: Readonly<Record<Ports, ListenerPlan>>,
  config: ListenerConfig,
  { log, metrics, resources }: { log: Logger; metrics: ServiceMetrics; resources: Resources },
): Promise<OpenListeners<Ports>> {
  const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = config;
  const open: Listener[] = [];
  const follow = (material: Parameters<Listener['useTls']>[0]) => {
    for (const listener of open) listener.useTls(material);
  };
  const tls = cert && key ? keepFile(resources, await watchTls({ cert, key }, follow)) : undefined;
  if (tls !== undefined) countTlsExpiry(metrics.registry, tls);
  const byPort: Partial<Record<Ports, Listener>> = {};
  for (const port of Object.keys(plans) as Ports[]) {
    const { served, limits = {}, ...options } = plans[port];
    const listener = await listen(served, {
      ...options,
      limits,
      host: config.LISTEN_HOST,
      tls: tls?.current(),
      connections: { total: config.CONNECTIONS, perAddress: config.CONNECTIONS_PER_ADDRESS },
      log,
      metrics,
    });
    resources.closers.push(() => closeNow(listener.server));
    open.push(listener);
    byPort[port] = listener;
    // The files may have changed while the listener was being opened.
    if (tls !== undefined) listener.useTls(tls.current());
  }
  return { byPort: byPort as Record<Ports, Listener>, tls: tls !== undefined };
}
