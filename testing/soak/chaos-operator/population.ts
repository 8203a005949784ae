import * as kinds from '../../../operator/kinds.ts';
import { CAPSULE_FINALIZER } from '../../../operator/names.ts';
import type { ApiClient } from '../../../operator/runtime/client.ts';
import { ApiError, isNotFound } from '../../../operator/runtime/errors.ts';
import { pathOf, type Resource } from '../../../operator/runtime/kube-object.ts';

/** The part of an Assistant's spec that is the same in all its versions. */
export type Make = (id: string) => { readonly manifest: { readonly platform: object } } & object;

export interface PopulationSize {
  readonly capsules: number;
  readonly assistants: number;
  /** The number of Assistants that may run at once; the others are suspended. */
  readonly running: number;
}

/** An Assistant as its user wants it. */
export interface DesiredAssistant {
  readonly name: string;
  readonly capsule: string;
  readonly id: string;
  readonly uid: string;
  suspended: boolean;
  version: number;
}

/** Users who create, change and delete at random, and record what must exist. */
export class Population {
  readonly capsules = new Set<string>();
  readonly assistants = new Map<string, DesiredAssistant>();
  readonly acts: Record<string, number> = {};
  readonly #client: ApiClient;
  readonly #namespace: string;
  readonly #size: PopulationSize;
  readonly #random: () => number;
  readonly #make: Make;

  constructor(client: ApiClient, namespace: string, size: PopulationSize, random: () => number, make: Make) {
    this.#client = client;
    this.#namespace = namespace;
    this.#size = size;
    this.#random = random;
    this.#make = make;
  }

  get running(): number {
    return [...this.assistants.values()].filter(({ suspended }) => !suspended).length;
  }

  /** Creates the full population. */
  async fill(): Promise<void> {
    for (let c = 0; c < this.#size.capsules; c += 1) await this.#createCapsule(`c${c}`);
    for (let a = 0; a < this.#size.assistants; a += 1) await this.#createAssistant(a);
  }

  /** Does one random act. */
  async act(): Promise<void> {
    const { capsules, assistants } = this.#size;
    const slot = Math.floor(this.#random() * (capsules + assistants));
    if (slot < capsules) await this.#onCapsule(`c${slot}`);
    else await this.#onAssistant(slot - capsules);
  }

  async #onCapsule(name: string): Promise<void> {
    if (!this.capsules.has(name)) return this.#createCapsule(name);
    if (this.#random() < 0.08 && (await this.#isTaken(name))) return this.deleteCapsule(name);
    const quota = { pods: 20 + Math.floor(this.#random() * 30) };
    await this.#patch('change Capsule', kinds.CAPSULE, name, { spec: { quota } });
  }

  async #onAssistant(slot: number): Promise<void> {
    const wished = this.assistants.get(this.#nameOf(slot).name);
    if (!wished) return this.#createAssistant(slot);
    const dice = this.#random();
    if (dice < 0.1) return this.#deleteAssistant(wished);
    if (dice < 0.5) return this.suspend(wished, !wished.suspended);
    wished.version += 1;
    const changed = this.#specOf(wished);
    await this.#patch('change Assistant', kinds.ASSISTANT, wished.name, { spec: changed });
  }

  /** Whether the operator has seen the Capsule; if it were deleted before, its Assistants would wait for another one of its name. */
  async #isTaken(name: string): Promise<boolean> {
    const path = pathOf(kinds.CAPSULE, this.#namespace, name);
    const { metadata } = await this.#client.call<kinds.Capsule>({ method: 'GET', path });
    return metadata.finalizers?.includes(CAPSULE_FINALIZER) === true;
  }

  /** Suspends or resumes an Assistant within the number that may run. */
  async suspend(wished: DesiredAssistant, suspended: boolean): Promise<void> {
    if (!suspended && this.running >= this.#size.running) return;
    wished.suspended = suspended;
    const act = suspended ? 'suspend' : 'resume';
    await this.#patch(act, kinds.ASSISTANT, wished.name, { spec: { suspend: suspended } });
  }

  async deleteCapsule(name: string): Promise<void> {
    this.capsules.delete(name);
    for (const one of [...this.assistants.values()])
      if (one.capsule === name) this.assistants.delete(one.name);
    await this.#delete('delete Capsule', kinds.CAPSULE, name);
  }

  async #deleteAssistant({ name }: DesiredAssistant): Promise<void> {
    this.assistants.delete(name);
    await this.#delete('delete Assistant', kinds.ASSISTANT, name);
  }

  #nameOf(slot: number) {
    const capsule = `c${slot % this.#size.capsules}`;
    const id = `x${Math.floor(slot / this.#size.capsules)}`;
    return { capsule, id, name: `${capsule}-${id}` };
  }

  async #createCapsule(name: string): Promise<void> {
    const uid = await this.#create('create Capsule', kinds.CAPSULE, name, {});
    if (uid !== undefined) this.capsules.add(name);
  }

  async #createAssistant(slot: number): Promise<void> {
    const { capsule, id, name } = this.#nameOf(slot);
    if (!this.capsules.has(capsule)) return;
    const suspended = this.running >= this.#size.running;
    const wished = { name, capsule, id, suspended, version: 0 };
    const spec = { capsule, ...this.#specOf(wished) };
    const uid = await this.#create('create Assistant', kinds.ASSISTANT, name, spec);
    if (uid !== undefined) this.assistants.set(name, { ...wished, uid });
  }

  /** Undefined while an earlier one of the same name still exists. */
  async #create(act: string, resource: Resource, name: string, spec: object): Promise<string | undefined> {
    try {
      const { metadata } = await this.#client.call<kinds.Capsule>({
        method: 'POST',
        path: pathOf(resource, this.#namespace),
        body: { apiVersion: 'platform.space/v1', kind: resource.kind, metadata: { name }, spec },
      });
      this.#count(act);
      return metadata.uid;
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) return undefined;
      throw error;
    }
  }

  async #patch(act: string, resource: Resource, name: string, body: object): Promise<void> {
    const contentType = 'application/merge-patch+json';
    const path = pathOf(resource, this.#namespace, name);
    await this.#client.call({ method: 'PATCH', path, contentType, body });
    this.#count(act);
  }

  async #delete(act: string, resource: Resource, name: string): Promise<void> {
    await this.#client
      .call({ method: 'DELETE', path: pathOf(resource, this.#namespace, name), body: {} })
      .catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
    this.#count(act);
  }

  #specOf({ id, suspended, version }: Pick<DesiredAssistant, 'id' | 'suspended' | 'version'>) {
    const { manifest, ...others } = this.#make(id);
    const platform = { ...manifest.platform, version: `1.0.${version}` };
    return { ...others, manifest: { ...manifest, platform }, suspend: suspended };
  }

  #count(act: string): void {
    this.acts[act] = (this.acts[act] ?? 0) + 1;
  }
}
