import type { Identity } from './context.ts';
import { type Account, identify } from './identity.ts';
import { leaseName } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import type { Clock } from './runtime/clock.ts';
import { Lease, type LeaseOptions } from './runtime/lease.ts';

export interface LeadershipOptions {
  readonly client: ApiClient;
  /** A separate client, so that renewals never wait for other calls; by default the same client. */
  readonly leaseClient?: ApiClient;
  readonly clock: Clock;
  readonly names: { readonly space: string; readonly systemNamespace: string };
  /** Identifies this process among all that ever lead this Space. */
  readonly holder: string;
  readonly lease?: Pick<LeaseOptions, 'durationMs' | 'giveUpMs' | 'renewMs' | 'lookMs' | 'isGone'>;
  readonly onProblem: (error: unknown) => void;
}

/**
 * Holds the Lease of the Space and the operator's identity, which it asks the API server for before it takes the Lease.
 */
export class Leadership {
  readonly lease: Lease;
  readonly #options: LeadershipOptions;
  #account: Account | undefined;

  constructor(options: LeadershipOptions) {
    const { client, leaseClient = client, clock, names, holder, onProblem } = options;
    this.#options = options;
    this.lease = new Lease({
      client: leaseClient,
      clock,
      namespace: names.systemNamespace,
      name: leaseName(names.space),
      identity: holder,
      ...options.lease,
      owner: () => this.#account?.owner,
      onProblem,
    });
  }

  /** @throws Error before the identity is known */
  get identity(): Identity {
    if (!this.#account) throw new Error('the operator has not asked yet which account it has');
    return this.#account.identity;
  }

  async acquire(signal: AbortSignal): Promise<void> {
    const { client, clock, onProblem } = this.#options;
    this.#account = await identify(client, clock, signal, onProblem);
    await this.lease.acquire(signal);
  }
}
