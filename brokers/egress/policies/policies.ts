import { IndexedSet, type Secret, ServiceError } from '@space/broker-kit';
import type { About, PolicyNarrow, PolicyPut, PolicyTaken } from '@space/contracts/egress';
import { valueFault } from '@space/manifests';
import { type Custody, keyIdOf } from '../custody.ts';
import { type LiveInput, liveInput, ownerOf, type Tenant, tenantKey } from './tenant.ts';

type StoredInput = PolicyPut['stored_inputs'][string];

/** How many UIDs of removed Assistants are remembered, so that a late message cannot bring one back. */
const MOST_REMOVED = 10_000;

/**
 * The policies of one replica, in memory. The operator is their source, and a replica that restarts permits nothing until
 * it has received them again. A change ends at once the tunnels and requests that it no longer permits.
 */
export class Policies {
  readonly #custody: Custody;
  readonly #tenants = new Map<string, Tenant>();
  readonly #byPrincipal = new Map<string, Tenant>();
  /** For a moment, an address may belong to two Assistants: when it passes from an ending pod to a new one. */
  readonly #byAddress = new Map<string, Set<Tenant>>();
  readonly #removed = new Set<string>();
  readonly #watchers = new Set<() => void>();
  /** Numbers the messages in the order in which they arrive. */
  #messages = 0;
  #inStep = false;
  /** The number of the last message that took effect for each Assistant. */
  readonly #lastApplied = new WeakMap<Tenant, number>();

  constructor(custody: Custody) {
    this.#custody = custody;
  }

  /** The ids of the custody keys that some usable value is sealed with. */
  *keysInUse(): Generator<string> {
    for (const { inputs } of this.#tenants.values())
      for (const { envelope, usable } of inputs.values()) if (usable) yield keyIdOf(envelope);
  }

  get size(): number {
    return this.#tenants.size;
  }

  /** Whether this replica has the policies of all Assistants; until then an unknown caller may be a legitimate one. */
  get inStep(): boolean {
    return this.#inStep;
  }

  /** Records that the operator has sent the policies of all Assistants that existed when the replica started. */
  markInStep(): void {
    this.#inStep = true;
  }

  /** Finds the Assistant that has this principal (hex SHA-256) and this address. */
  find(principal: string, address: string): Tenant | undefined {
    const tenant = this.#byPrincipal.get(principal);
    return tenant?.addresses.has(address) === true ? tenant : undefined;
  }

  /** The Capsule whose Assistant has this principal, whatever its addresses. */
  capsuleOf(principal: string): string | undefined {
    return this.#byPrincipal.get(principal)?.capsule;
  }

  /** The Capsule whose Assistant has this address. */
  capsuleAt(address: string): string | undefined {
    const [tenant] = this.#byAddress.get(address) ?? [];
    return tenant?.capsule;
  }

  /** Finds the policy of an Assistant by its names and UID. */
  of({ capsule_id, app_id, assistant_uid }: About): Tenant | undefined {
    const tenant = this.#tenants.get(tenantKey({ capsule_id, app_id }));
    return tenant?.uid === assistant_uid ? tenant : undefined;
  }

  /** Calls `watcher` after each change of any policy, until the returned function is called. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Replaces the Assistant's policy; what the new one does not permit is ended before this resolves. */
  async put(put: PolicyPut): Promise<Omit<PolicyTaken, 'instance'>> {
    this.#messages += 1;
    const at = this.#messages;
    const inputs = new Map<string, LiveInput>();
    const resealed: Record<string, string> = {};
    for (const [key, input] of Object.entries(put.stored_inputs)) {
      const { live, value } = this.#open(put, key, input);
      inputs.set(key, live);
      if (value !== undefined && this.#custody.isOld(input.envelope))
        resealed[key] = await this.#custody.seal(live.owner, value);
    }
    // There is no await from here on, so that two messages cannot interleave.
    const current = this.#currentFor(put);
    // A later message of the same generation overtakes this one if it had less to seal.
    if (current !== undefined && (this.#lastApplied.get(current) ?? 0) > at)
      throw new ServiceError('conflict', 'a later message came before');
    for (const [key, input] of inputs) {
      const before = current?.inputs.get(key);
      if (before?.digest !== input.digest) continue;
      if (this.#custody.isSameEntry(input.owner, before.envelope, input.envelope))
        inputs.set(key, { ...input, counted: before.counted });
    }
    const tenant = current ?? this.#admit(put);
    this.#give(tenant, put, inputs);
    tenant.generation = put.generation;
    this.#lastApplied.set(tenant, at);
    this.#move(tenant, new Set(put.addresses.map(plainAddress)));
    this.#apply(tenant);
    const reentry = [...inputs].flatMap(([key, { usable }]) => (usable ? [] : [key]));
    return { revision: put.revision, reentry, resealed };
  }

  /**
   * Removes what the message does not name, for a manifest that cannot take effect as a whole. It adds nothing but the
   * addresses of pods, which may be replaced meanwhile. A replica without a policy of the Assistant begins with what the
   * running pods were given. @throws ServiceError `conflict`, `stale_generation`
   */
  narrow(request: PolicyNarrow): boolean {
    const tenant = this.#currentFor(request) ?? this.#begin(request);
    if (tenant === undefined) return false;
    this.#messages += 1;
    this.#lastApplied.set(tenant, this.#messages);
    const hosts = new Set(request.allowed_hosts);
    tenant.generation = request.generation;
    tenant.hosts = new Set([...tenant.hosts].filter((host) => hosts.has(host)));
    tenant.inputs = new Map(
      [...tenant.inputs].filter(([key, { digest }]) => request.stored_inputs[key] === digest),
    );
    if (request.addresses !== undefined) this.#move(tenant, new Set(request.addresses.map(plainAddress)));
    this.#apply(tenant);
    return true;
  }

  remove({ capsule_id, app_id, assistant_uid }: About): boolean {
    if (this.#removed.size >= MOST_REMOVED) this.#removed.clear();
    this.#removed.add(assistant_uid);
    const tenant = this.#tenants.get(tenantKey({ capsule_id, app_id }));
    if (tenant?.uid !== assistant_uid) return false;
    this.#drop(tenant);
    return true;
  }

  /** Ends all tunnels and requests. */
  endAll(): void {
    for (const { connections } of this.#tenants.values())
      for (const connection of connections.snapshot()) connection.end();
  }

  /** A stored input, with its value if that was entered for this definition. */
  #open(
    about: About,
    key: string,
    input: StoredInput,
  ): { live: LiveInput; value: Secret<string> | undefined } {
    const opened = this.#custody.open(ownerOf(about, key, input.definition), input.envelope);
    // A value that was sealed under older, weaker rules must be entered again, too.
    const fit = opened !== undefined && valueFault(input.definition, opened.reveal()) === undefined;
    return { live: liveInput(about, key, input, fit), value: fit ? opened : undefined };
  }

  /** The policy of pods that run already; none if there is any of this name, which only a whole policy replaces. */
  #begin(request: PolicyNarrow): Tenant | undefined {
    const { running } = request;
    if (running === undefined || this.#tenants.has(tenantKey(request))) return undefined;
    const inputs = Object.entries(running.stored_inputs).map(
      ([key, input]) => [key, this.#open(request, key, input).live] as const,
    );
    const tenant = this.#admit(request);
    this.#give(tenant, running, new Map(inputs));
    return tenant;
  }

  /** @throws ServiceError `conflict` if another Assistant has the principal, before anything is changed */
  #give(
    tenant: Tenant,
    { revision, principals, allowed_hosts }: Pick<PolicyPut, 'revision' | 'principals' | 'allowed_hosts'>,
    inputs: Tenant['inputs'],
  ): void {
    for (const principal of principals) {
      const other = this.#byPrincipal.get(principal);
      if (other !== undefined && other !== tenant) throw new ServiceError('conflict', 'principal of another');
    }
    this.#forgetPrincipals(tenant);
    Object.assign(tenant, { revision, principals, hosts: new Set(allowed_hosts), inputs });
    this.#tenants.set(tenantKey({ capsule_id: tenant.capsule, app_id: tenant.app }), tenant);
    for (const principal of principals) this.#byPrincipal.set(principal, tenant);
  }

  /** Finds the policy that a message is about; one with another UID is not. */
  #currentFor(
    about: Pick<PolicyPut, 'capsule_id' | 'app_id' | 'assistant_uid' | 'generation'>,
  ): Tenant | undefined {
    if (this.#removed.has(about.assistant_uid)) throw new ServiceError('conflict', 'Assistant was removed');
    const tenant = this.#tenants.get(tenantKey(about));
    if (tenant === undefined || tenant.uid !== about.assistant_uid) return undefined;
    if (about.generation < tenant.generation) throw new ServiceError('stale_generation', 'older generation');
    return tenant;
  }

  #admit({ capsule_id, app_id, assistant_uid }: About): Tenant {
    const earlier = this.#tenants.get(tenantKey({ capsule_id, app_id }));
    if (earlier !== undefined) this.#drop(earlier);
    return {
      capsule: capsule_id,
      app: app_id,
      uid: assistant_uid,
      generation: 0,
      revision: '',
      principals: [],
      addresses: new Set(),
      hosts: new Set(),
      inputs: new Map(),
      connections: new IndexedSet(),
    };
  }

  #drop(tenant: Tenant): void {
    this.#forgetPrincipals(tenant);
    this.#tenants.delete(`${tenant.capsule}/${tenant.app}`);
    this.#move(tenant, new Set());
    Object.assign(tenant, { hosts: new Set(), inputs: new Map() });
    this.#apply(tenant);
  }

  #move(tenant: Tenant, addresses: ReadonlySet<string>): void {
    for (const address of tenant.addresses) {
      const owners = this.#byAddress.get(address);
      owners?.delete(tenant);
      if (owners?.size === 0) this.#byAddress.delete(address);
    }
    for (const address of addresses)
      this.#byAddress.set(address, (this.#byAddress.get(address) ?? new Set()).add(tenant));
    tenant.addresses = addresses;
  }

  /** A principal belongs to one Assistant, so none of these is another's. */
  #forgetPrincipals({ principals }: Tenant): void {
    for (const principal of principals) this.#byPrincipal.delete(principal);
  }

  #apply(tenant: Tenant): void {
    for (const connection of tenant.connections.snapshot()) if (!connection.permitted()) connection.end();
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** A dual-stack listener reports an IPv4 caller as `::ffff:a.b.c.d`. */
export const plainAddress = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');
