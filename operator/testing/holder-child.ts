/** Holds a Lease and writes once for each line that it reads; ends with 3 when the Lease is lost. See `lease.test.ts`. */
import { createInterface } from 'node:readline';
import { KubeConfig } from '@kubernetes/client-node';
import { apiClient } from '../runtime/client.ts';
import { systemClock } from '../runtime/clock.ts';
import { connect } from '../runtime/connection.ts';
import { fencedClient, Lease, LeaseLostError } from '../runtime/lease.ts';

const given = JSON.parse(process.env['HOLDER'] ?? '{}') as {
  readonly kubeconfig: string;
  readonly lease: { readonly namespace: string; readonly name: string; readonly identity: string };
  readonly path: string;
};
const kubeConfig = new KubeConfig();
kubeConfig.loadFromString(given.kubeconfig);
const client = apiClient(connect(kubeConfig));
const lease = new Lease({ client, clock: systemClock, ...given.lease });
lease.lost.addEventListener('abort', () => process.exit(3));
await lease.acquire(new AbortController().signal);
const fenced = fencedClient(client, lease);
try {
  let count = 0;
  console.log('holding');
  for await (const _ of createInterface(process.stdin)) {
    count += 1;
    await fenced.call({
      method: 'PATCH',
      path: given.path,
      contentType: 'application/merge-patch+json',
      body: { data: { writer: given.lease.identity, count: String(count) } },
    });
    console.log('written');
  }
} catch (error) {
  process.exit(error instanceof LeaseLostError ? 3 : 1);
}
