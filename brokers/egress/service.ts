import { readFile } from 'node:fs/promises';
import {
  addressGuard,
  cached,
  closeAll,
  closeNow,
  countTlsExpiry,
  createMetrics,
  dnsResolve,
  fixedMap,
  type Held,
  hold,
  type Listener,
  type Logger,
  listen,
  parseProvisionerTokens,
  portOf,
  serveMetrics,
  shutDown,
  watched,
  watchTls,
  withFixed,
} from '@space/broker-kit';
import { type Keyring, watchKeyring } from '@space/broker-kit/custody';
import { createControl } from './app.ts';
import { type Config, limitsIn } from './config.ts';
import { createCustody } from './custody.ts';
import { type Gateway, startGateway } from './gateway.ts';

export interface Service {
  readonly dataPort: number;
  readonly controlPort: number;
  readonly metricsPort: number;
  stop(): Promise<boolean>;
}

/** Starts a replica, fail-closed and in this order: keys, tokens, listener for callers, listener for the operator. */
export async function startService(config: Config, log: Logger): Promise<Service> {
  const drainMs = config.DRAIN_SECONDS * 1_000;
  const held: Held = { closers: [], files: [] };
  try {
    let gateway: Gateway | undefined;
    const ring = await watchKeyring(config.CUSTODY_KEY_FILE, {
      inUse: () => gateway?.policies.keysInUse() ?? [],
      onChange: ({ ok }) => log[ok ? 'info' : 'error']({ taken: ok }, 'the custody keyring changed'),
    });
    hold(held, ring);
    const tokens = hold(held, await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log));
    const authorities =
      config.UPSTREAM_CA_FILE === undefined ? undefined : await readFile(config.UPSTREAM_CA_FILE, 'utf8');
    const metrics = createMetrics();
    const custody = createCustody(config.SPACE_NAME, (): Keyring => ring.current());
    const host = config.LISTEN_HOST;
    const started = await startGateway({
      host,
      port: config.DATA_PORT,
      custody,
      resolve: withFixed(fixedMap(config.FIXED_HOSTS), cached(dnsResolve())),
      guard: addressGuard({
        denied: config.DENIED_CIDRS,
        allowed: config.ALLOWED_CIDRS,
        nat64: config.NAT64_PREFIXES,
      }),
      names: config.SERVED_NAMES,
      requestHeaders: config.REQUEST_HEADERS,
      authorities,
      limits: limitsIn(config),
      metrics,
      log,
    });
    gateway = started;
    const metricsServer = await serveMetrics(metrics.registry, { host, port: config.METRICS_PORT });
    held.closers.push(() => closeNow(metricsServer));
    const edge = createControl({
      policies: started.policies,
      reflections: started.reflections,
      custody,
      instance: started.instance,
      tokens,
      refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
      log,
      metrics,
    });
    let control: Listener | undefined;
    const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = config;
    const tls =
      cert && key ? await watchTls({ cert, key }, (material) => control?.useTls(material)) : undefined;
    if (tls !== undefined) countTlsExpiry(metrics.registry, hold(held, tls));
    const listening = await listen(edge, {
      name: 'control',
      host,
      port: config.CONTROL_PORT,
      tls: tls?.current(),
      connections: { total: config.CONNECTIONS, perAddress: config.CONNECTIONS_PER_ADDRESS },
      log,
      metrics,
    });
    control = listening;
    const ports = {
      dataPort: portOf(started.listener.server),
      controlPort: portOf(listening.server),
      metricsPort: portOf(metricsServer),
    };
    log.info({ ...ports, tls: tls !== undefined }, 'listening');
    return {
      ...ports,
      stop: () =>
        shutDown(
          [
            { name: 'control', timeoutMs: 5_000, run: () => listening.close() },
            { name: 'requests and tunnels', timeoutMs: drainMs + 5_000, run: () => drain(started, drainMs) },
            { name: 'connections to upstreams', timeoutMs: 5_000, run: () => started.upstreams.close() },
            { name: 'files', timeoutMs: 5_000, run: () => closeAll(held) },
          ],
          log,
        ),
    };
  } catch (error) {
    await closeAll(held);
    throw error;
  }
}

/** Few tunnels end by themselves: those that have not after their time are cut, which is no failure. */
async function drain({ policies, listener }: Gateway, drainMs: number): Promise<void> {
  const closed = listener.close();
  const late = setTimeout(() => {
    policies.endAll();
    listener.server.closeAllConnections();
  }, drainMs);
  await closed;
  clearTimeout(late);
}
