import { readFile } from 'node:fs/promises';
import {
  addressGuard,
  cached,
  createMetrics,
  dnsResolve,
  fixedMap,
  keepFile,
  type Logger,
  parseProvisionerTokens,
  parseTokens,
  portOf,
  type ServiceMetrics,
  watched,
  withFixed,
} from '@space/broker-kit';
import { type Keyring, watchKeyring } from '@space/broker-kit/custody';
import { startShell } from '@space/broker-kit/service';
import { createControl } from './app.ts';
import { type Config, limitsIn } from './config.ts';
import { type Custody, createCustody } from './custody.ts';
import { type Gateway, startGateway } from './gateway.ts';

const CONTROL_ENDS_MS = 5_000;
const UPSTREAMS_END_MS = 5_000;

export interface Service {
  readonly dataPort: number;
  readonly controlPort: number;
  readonly metricsPort: number;
  stop(): Promise<boolean>;
}

/**
 * Starts a replica in this order: keys, tokens, listener for callers, listener for the operator. @throws if any of
 * these is missing or wrong
 */
export async function startService(config: Config, log: Logger): Promise<Service> {
  const drainMs = config.DRAIN_SECONDS * 1_000;
  const { ports, parts, stop } = await startShell(config, log, async (held) => {
    let gateway: Gateway | undefined;
    const ring = await watchKeyring(config.CUSTODY_KEY_FILE, {
      inUse: () => gateway?.policies.keysInUse() ?? [],
      onChange: ({ ok }) => log[ok ? 'info' : 'error']({ taken: ok }, 'the custody keyring changed'),
    });
    keepFile(held, ring);
    const tokens = keepFile(held, await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log));
    const { OBSERVER_TOKEN_FILE: observerFile } = config;
    const ofObservers = parseTokens('obs', 'OBSERVER_TOKEN_FILE');
    const observers =
      observerFile === undefined ? undefined : keepFile(held, await watched(observerFile, ofObservers, log));
    const metrics = createMetrics();
    const custody = createCustody(config.SPACE_NAME, (): Keyring => ring.current());
    const started = await openGateway(config, log, custody, metrics);
    gateway = started;
    const served = createControl({
      policies: started.policies,
      reflections: started.reflections,
      calls: started.calls,
      custody,
      instance: started.instance,
      tokens,
      observers,
      refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
      log,
      metrics,
    });
    const dataPort = portOf(started.listener.server);
    return {
      metrics,
      listeners: { controlPort: { name: 'control', port: config.CONTROL_PORT, served } },
      otherPorts: { dataPort },
      leave: () => started.listener.leave(),
      upkeep: [],
      requestsMs: CONTROL_ENDS_MS,
      leaving: [
        { name: 'requests and tunnels', timeoutMs: drainMs + 5_000, run: () => drain(started, drainMs) },
        {
          name: 'connections to upstreams',
          timeoutMs: UPSTREAMS_END_MS,
          run: () => started.upstreams.close(),
        },
      ],
      parts: { dataPort },
    };
  });
  return { ...ports, ...parts, stop };
}

/** Opens the part that serves callers, with the addresses, names and limits of the configuration. */
async function openGateway(
  config: Config,
  log: Logger,
  custody: Custody,
  metrics: ServiceMetrics,
): Promise<Gateway> {
  const authorities =
    config.UPSTREAM_CA_FILE === undefined ? undefined : await readFile(config.UPSTREAM_CA_FILE, 'utf8');
  return startGateway({
    host: config.LISTEN_HOST,
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
}

/** Waits for tunnels to end; few end by themselves, so the rest is closed after the time, which is not a failure. */
async function drain({ policies, listener }: Gateway, drainMs: number): Promise<void> {
  const closed = listener.close();
  const late = setTimeout(() => {
    policies.endAll();
    listener.server.closeAllConnections();
  }, drainMs);
  await closed;
  clearTimeout(late);
}
