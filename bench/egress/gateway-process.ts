/** Runs the gateway in a process of its own, with all functions except its limits (and, with the argument `unscrubbed`, except the scrubber). Prints its port and principal, and ends when its input ends. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Scrubber } from '../../brokers/egress/core/scrub.ts';
import { createCustody, passingKeyring } from '../../brokers/egress/custody.ts';
import { startGateway } from '../../brokers/egress/gateway.ts';
import { ownerOf } from '../../brokers/egress/policies/tenant.ts';
import {
  addressGuard,
  createLogger,
  createMetrics,
  newToken,
  portOf,
  Secret,
  withFixed,
} from '../../brokers/kit/index.ts';

const [host = '', upstreamPort = '', caFile = '', value = '', scrubbing = ''] = process.argv.slice(2);
const NO_SCRUBBER: Scrubber = {
  text: (text) => text,
  body: () => ({ push: (chunk) => chunk, end: () => Buffer.alloc(0), starred: false }),
};
const ring = passingKeyring();
const custody = createCustody('bench', () => ring);
const answer = { address: '127.0.0.1', port: Number(upstreamPort), ttl: 60, trusted: true as const };
const gateway = await startGateway({
  host: '127.0.0.1',
  port: 0,
  custody,
  resolve: withFixed(new Map([[host, answer]]), async () => []),
  guard: addressGuard(),
  names: ['assistant-egress'],
  authorities: readFileSync(caFile, 'utf8'),
  limits: { perSecond: 1e9, burst: 1e9, capsulePerSecond: 1e9, requests: 1_000, tunnels: 10_000 },
  metrics: createMetrics(),
  ...(scrubbing === 'unscrubbed' ? { scrubbers: { of: () => NO_SCRUBBER } } : {}),
  // Log lines are formatted but not written: a container writes them together every 20 ms.
  log: createLogger({ service: 'egress', level: 'info', destination: { write: () => undefined } }),
});
const principal = newToken('egr').reveal();
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const assistant = { capsule_id: 'bench', app_id: 'caller', assistant_uid: 'uid' };
const definition = { host, routes: [{ method: 'GET' as const, path: '/v1/rates' }], header: 'X-Api-Key' };
await gateway.policies.put({
  ...assistant,
  generation: 1,
  revision: sha256('bench'),
  principals: [sha256(principal)],
  addresses: ['127.0.0.1'],
  allowed_hosts: [host],
  stored_inputs: {
    bank: {
      definition,
      envelope: await custody.seal(ownerOf(assistant, 'bank', definition), new Secret(value)),
    },
  },
});
gateway.policies.markInStep();
console.log(JSON.stringify({ port: portOf(gateway.listener.server), principal }));
process.stdin.resume().on('end', () => process.exit(0));
