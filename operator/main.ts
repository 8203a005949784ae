import { getServers } from 'node:dns';
import { readFile } from 'node:fs/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { Secret } from '@space/contracts/secret';
import { pino } from 'pino';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { databaseBroker } from './brokers/database.ts';
import { objectStoreBroker } from './brokers/objects.ts';
import { readConfig } from './config.ts';
import { replicaCaller } from './egress/replica.ts';
import { grantKeyFile } from './grants/sign.ts';
import { serveHealth, serveMetrics } from './health.ts';
import { holderOf, podIsGone } from './holder.ts';
import { operatorMetrics } from './metrics.ts';
import { sinceStartMs, startOperator } from './operator.ts';
import { apiClient } from './runtime/client.ts';
import { connect } from './runtime/connection.ts';
import { runtimeMetrics } from './runtime/metrics.ts';
import { dnsServersOf } from './sandbox/network.ts';

const config = readConfig(process.env);
const log = pino({
  level: config.logLevel,
  base: { service: 'operator', space: config.space },
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: { level: (level) => ({ level }) },
});
const registry = new Registry();
// At the default of 10 ms, measuring the event loop's delay is most of an idle operator's cost.
collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
const measured = operatorMetrics(registry);

/** In an image the document is beside the bundle; in the sources it is in the folder `manifests/driver/`. */
async function driverDocument(file: string): Promise<Buffer> {
  const here = (path: string) => readFile(new URL(path, import.meta.url));
  return here(`driver/${file}`).catch(() => here(`../manifests/driver/${file}`));
}

/** During a rotation the file has two tokens, the new one first. */
async function provisionerToken(path: string): Promise<Secret> {
  const text = await readFile(path, 'utf8');
  return new Secret(text.split('\n')[0]?.trim() ?? '');
}

const kubeConfig = new KubeConfig();
kubeConfig.loadFromDefault();

const { spaceCaFile } = config;
const spaceCa = spaceCaFile === undefined ? undefined : () => readFile(spaceCaFile, 'utf8');
const { databaseCaFile } = config;
const databaseCa = databaseCaFile === undefined ? undefined : () => readFile(databaseCaFile, 'utf8');
const database = databaseBroker({
  url: config.dbBrokerUrl,
  readCa: spaceCa,
  driver: await driverDocument('postgres.json'),
  onCall: measured.observeCallsOf('database'),
  provisionerToken: () => provisionerToken(config.dbProvisionerTokenFile),
});
const callReplica = replicaCaller({
  port: config.egressControlPort,
  token: () => provisionerToken(config.egressProvisionerTokenFile),
  trust: spaceCa && config.egressServerName ? { readCa: spaceCa, name: config.egressServerName } : undefined,
  onCall: measured.observeCallsOf('egress'),
});
const objectStore =
  config.objectStoreBrokerUrl === undefined
    ? undefined
    : objectStoreBroker({
        url: config.objectStoreBrokerUrl,
        readCa: spaceCa,
        driver: await driverDocument('objectstore.json'),
        onCall: measured.observeCallsOf('objectstore'),
        provisionerToken: () => provisionerToken(config.objectStoreProvisionerTokenFile),
      });

const { grantSigningKeyFile } = config;
const grantKey =
  grantSigningKeyFile === undefined
    ? undefined
    : grantKeyFile(grantSigningKeyFile, (file) => readFile(file, 'utf8'));
// A Space that uses grants does not start without a valid signing key.
await grantKey?.();

const health = { live: () => true, ready: () => false };
const servers = [
  await serveHealth(config.healthPort, health, config.listenHost),
  await serveMetrics(config.metricsPort, registry, config.listenHost),
];
const metrics = runtimeMetrics(registry);
const connection = connect(kubeConfig);
const client = apiClient(connection, metrics.observeCall);
// Renewals of the Lease have a connection of their own without HTTP/2, so that they never wait for another call.
const leaseConnection = connect(kubeConfig, { allowH2: false });
const leaseClient = apiClient(leaseConnection, metrics.observeCall);
const onGate = measured.observeGate;
const manager = startOperator({
  client,
  leaseClient,
  names: { ...config, dnsServers: dnsServersOf(getServers()) },
  database,
  objectStore,
  grantKey,
  callReplica,
  spaceCa,
  databaseCa,
  log,
  metrics,
  onGate,
  holder: holderOf(config.pod),
  lease: { isGone: podIsGone(leaseClient, config.systemNamespace, config.pod) },
  onLost(reason) {
    // After the loss of the Lease nothing may be written, so nothing is waited for; the restarted process waits for the
    // Lease.
    log.fatal({ err: reason }, 'the lead is lost');
    process.exit(1);
  },
});
health.ready = () => manager.warm;
measured.watch(manager);

async function stop(signal: NodeJS.Signals): Promise<void> {
  log.info({ signal }, 'stopping');
  health.ready = () => false;
  const forced = setTimeout(() => process.exit(1), 20_000);
  await manager.stop();
  await Promise.all([connection.close(), leaseConnection.close()]);
  for (const server of servers) server.close();
  clearTimeout(forced);
  log.info('stopped');
}
process.once('SIGTERM', stop);
process.once('SIGINT', stop);

await manager.started;
if (manager.ready) log.info({ sinceStartMs: sinceStartMs() }, 'leading');
