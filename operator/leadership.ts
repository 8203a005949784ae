import type { Identity } from './context.ts';
import { type Account, identify } from './identity.ts';
import { leaseName } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import type { Clock } from './runtime/clock.ts';
import { Lease, type LeaseOptions } from './runtime/lease.ts';

export interface LeadershipOptions {
  readonly client: ApiClient;
  /** A way of its own to the API server, so that a renewal never waits for other calls; else that of all. */
  readonly leaseClient?: ApiClient;
  readonly clock: Clock;
  readonly names: { readonly space: string; readonly systemNamespace: string };
  /** This process, among all that ever lead this Space. */
  readonly holder: string;
  readonly lease?: Pick<LeaseOptions, 'durationMs' | 'giveUpMs' | 'renewMs' | 'lookMs' | 'isGone'>;
  readonly onProblem: (error: unknown) => void;
}

/** The Lease of the Space, and who the operator is to the API server, which it asks before it takes the Lease. */
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

  /** @throws Error before the Lease was asked for */
  get identity(): Identity {
    if (!this.#account) throw new Error('who the operator is was not asked yet');
    return this.#account.identity;
  }

  async acquire(signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#options;
    this.#account = await identify(client, clock, signal);
    await this.lease.acquire(signal);
  }
}
