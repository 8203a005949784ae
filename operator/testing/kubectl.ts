import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import type { ApiClient } from '../runtime/client.ts';
import { isNotFound } from '../runtime/errors.ts';
import { type KubeObject, pathOf, type Resource } from '../runtime/kube-object.ts';

/** What a person does with `kubectl`, where the Space keeps the kind unless a namespace is named. */
export interface Kubectl {
  get<T extends KubeObject>(resource: Resource, name: string, namespace?: string): Promise<T | undefined>;
  list<T extends KubeObject>(resource: Resource, namespace?: string): Promise<T[]>;
  patch(resource: Resource, name: string, patch: unknown, namespace?: string): Promise<void>;
  delete(resource: Resource, name: string, namespace?: string): Promise<void>;
  /** `status reason` of a condition. */
  condition(resource: Resource, name: string, type: string): Promise<string>;
  message(resource: Resource, name: string, type: string): Promise<string>;
  becomes(resource: Resource, name: string, type: string, wanted: string): Promise<void>;
  goes(resource: Resource, name: string, namespace?: string): Promise<void>;
  /** All Events about an object of this name. */
  events(name: string): Promise<readonly ToldEvent[]>;
  /** Deletes, and waits for the end. */
  removed(resource: Resource, name: string): Promise<void>;
}

interface ToldEvent extends KubeObject {
  readonly reason: string;
  readonly note: string;
  readonly regarding: { readonly name: string; readonly uid?: string };
  readonly series?: { readonly count: number };
}

const SYSTEM_KINDS = new Set([kinds.SECRET.kind, kinds.POD.kind]);
export const EVENT: Resource = { ...kinds.POD, group: 'events.k8s.io', plural: 'events', kind: 'Event' };

/** `home` has the Capsules and Assistants, `system` the Secrets and pods of the operator. */
export function kubectlIn(client: ApiClient, home: string, system: string): Kubectl {
  const placeOf = (resource: Resource) => (SYSTEM_KINDS.has(resource.kind) ? system : home);
  const kubectl: Kubectl = {
    async get<T extends KubeObject>(resource: Resource, name: string, namespace = placeOf(resource)) {
      try {
        return await client.call<T>({ method: 'GET', path: pathOf(resource, namespace, name) });
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    async list<T extends KubeObject>(resource: Resource, namespace = placeOf(resource)) {
      const { items } = await client.call<{ items: T[] }>({
        method: 'GET',
        path: pathOf(resource, namespace),
      });
      return items;
    },
    async patch(resource, name, body, namespace = placeOf(resource)) {
      const contentType = Array.isArray(body)
        ? 'application/json-patch+json'
        : 'application/merge-patch+json';
      await client.call({ method: 'PATCH', path: pathOf(resource, namespace, name), contentType, body });
    },
    async delete(resource, name, namespace = placeOf(resource)) {
      await client.call({ method: 'DELETE', path: pathOf(resource, namespace, name), body: {} });
    },
    async condition(resource, name, type) {
      const found = await find(resource, name, type);
      return found ? `${found.status} ${found.reason}` : 'none';
    },
    async message(resource, name, type) {
      return (await find(resource, name, type))?.message ?? '';
    },
    async becomes(resource, name, type, wanted) {
      const ask = async () => {
        const seen = await kubectl.condition(resource, name, type);
        if (seen === wanted) return true;
        throw new Error(
          `${resource.kind} ${name}: ${type} is ${seen}: ${await kubectl.message(resource, name, 'Ready')}`,
        );
      };
      await eventually(ask, { what: `${resource.kind} ${name} has ${type} ${wanted}` });
    },
    async goes(resource, name, namespace = placeOf(resource)) {
      const ask = async () => (await kubectl.get(resource, name, namespace)) === undefined;
      await eventually(ask, { what: `${resource.kind} ${name} is gone` });
    },
    async events(name) {
      return (await kubectl.list<ToldEvent>(EVENT)).filter(({ regarding }) => regarding.name === name);
    },
    async removed(resource, name) {
      await kubectl.delete(resource, name);
      await kubectl.goes(resource, name);
    },
  };

  async function find(resource: Resource, name: string, type: string) {
    const object = await kubectl.get<kinds.Capsule | kinds.Assistant>(resource, name);
    return object?.status?.conditions?.find((condition) => condition.type === type);
  }
  return kubectl;
}
