/**
 * `npm run dev:egress -- --manifest FILE --input KEY=VALUE… --resolve HOST=ADDRESS:PORT… --ca FILE`: the gateway on
 * loopback for one Assistant with that manifest. Names are resolved by the map alone. When it is ready, one JSON line
 * on standard output tells where; logs go to standard error. Ctrl-C stops it and leaves nothing.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import {
  addressGuard,
  createLogger,
  createMetrics,
  fixedMap,
  newToken,
  parseFixed,
  portOf,
  Secret,
  stopSignal,
  withFixed,
} from '@space/broker-kit';
import { EGRESS } from '@space/contracts/egress';
import { parseManifest, summarize, valueFault } from '@space/manifests';
import pino from 'pino';
import { compileEgress } from '../../operator/egress/compile.ts';
import { createCustody, passingKeyring } from './custody.ts';
import { startGateway } from './gateway.ts';
import { ownerOf } from './policies/tenant.ts';

const USAGE =
  'usage: npm run dev:egress -- --manifest FILE [--input KEY=VALUE]… [--resolve HOST=ADDRESS:PORT]… [--ca FILE]';

class UsageError extends Error {}

function readArguments() {
  const { values } = parseArgs({
    options: {
      manifest: { type: 'string' },
      input: { type: 'string', multiple: true, default: [] },
      resolve: { type: 'string', multiple: true, default: [] },
      ca: { type: 'string' },
    },
  });
  if (values.manifest === undefined) throw new UsageError('--manifest is required');
  const bad = values.resolve.find((text) => parseFixed(text) === undefined);
  if (bad !== undefined) throw new UsageError(`--resolve ${bad}: not HOST=ADDRESS:PORT`);
  const inputs = values.input.map((text): [string, Secret<string>] => {
    const equals = text.indexOf('=');
    if (equals < 1) throw new UsageError('--input: not KEY=VALUE');
    return [text.slice(0, equals), new Secret(text.slice(equals + 1))];
  });
  return { ...values, manifest: values.manifest, input: new Map(inputs) };
}

async function contentOf(option: string, file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch {
    throw new UsageError(`${option} ${file}: the file cannot be read`);
  }
}

async function start() {
  const args = readArguments();
  const parsed = parseManifest(await contentOf('--manifest', args.manifest));
  if (!parsed.ok) throw new UsageError(`${args.manifest}: ${summarize(parsed.errors)}`);
  const { policy, finding } = compileEgress(parsed.manifest);
  if (finding.status !== 'True') throw new UsageError(`${finding.reason}: ${finding.message}`);
  const missing = Object.keys(policy.inputs).filter((key) => !args.input.has(key));
  const unasked = [...args.input.keys()].filter((key) => !Object.hasOwn(policy.inputs, key));
  if (missing.length > 0) throw new UsageError(`--input is required for: ${missing.join(', ')}`);
  if (unasked.length > 0) throw new UsageError(`the manifest has no stored input ${unasked.join(', ')}`);

  for (const [key, definition] of Object.entries(policy.inputs)) {
    const fault = valueFault(definition, args.input.get(key)?.reveal() ?? '');
    if (fault !== undefined) throw new UsageError(`--input ${key}: the value ${fault}`);
  }

  const log = createLogger({ service: 'egress', level: 'info', destination: pino.destination(2) });
  const ring = passingKeyring();
  const custody = createCustody('dev', () => ring);
  const gateway = await startGateway({
    host: '127.0.0.1',
    port: 0,
    custody,
    resolve: withFixed(fixedMap(args.resolve), async () => []),
    guard: addressGuard(),
    names: ['127.0.0.1', 'localhost', 'assistant-egress'],
    authorities: args.ca === undefined ? undefined : (await contentOf('--ca', args.ca)).toString(),
    // Developers try hosts that send back what they receive.
    limits: { reflections: 0 },
    metrics: createMetrics(),
    log,
  });
  const principal = newToken('egr').reveal();
  const { id } = parsed.manifest.platform;
  const assistant = { capsule_id: 'dev', app_id: id, assistant_uid: randomUUID() };
  const inputs = Object.entries(policy.inputs).map(async ([key, definition]) => {
    const value = args.input.get(key) ?? new Secret('');
    return [key, { definition, envelope: await custody.seal(ownerOf(assistant, key, definition), value) }];
  });
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
  // The same door as the operator's: what the schema refuses is refused here too.
  const put = EGRESS.operations['policy.put'].request.parse({
    ...assistant,
    generation: 1,
    revision: sha256(JSON.stringify(policy)),
    principals: [sha256(principal)],
    addresses: ['127.0.0.1'],
    allowed_hosts: policy.allowedHosts,
    stored_inputs: Object.fromEntries(await Promise.all(inputs)),
  });
  await gateway.policies.put(put);
  gateway.policies.markInStep();
  const at = `127.0.0.1:${portOf(gateway.listener.server)}`;
  const ready = {
    service: 'egress',
    proxy_url: `http://egr:${principal}@${at}`,
    inputs_url: `http://${at}/i`,
    principal,
  };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
  return gateway;
}

const stopped = stopSignal();
try {
  const { policies, listener, upstreams } = await start();
  await stopped;
  policies.endAll();
  listener.server.closeAllConnections();
  await upstreams.close();
} catch (error) {
  const known = error instanceof UsageError || (error instanceof TypeError && 'code' in error);
  console.error(known ? `${error.message}\n${USAGE}` : error);
  process.exitCode = known ? 2 : 1;
}
process.exit();
