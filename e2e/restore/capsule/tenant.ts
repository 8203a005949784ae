/** One Capsule from a Space's state, with its Assistants and their stored inputs, under its own name or another. */
import type { KubeObject } from '../../space/kube-object.ts';
import { asRestored, RESTORING } from '../marks.ts';
import { RestoreProblem } from '../problem.ts';
import type { State } from '../state.ts';

export interface Tenant {
  readonly capsule: KubeObject;
  readonly assistants: readonly KubeObject[];
  /** Secrets that people entered for its Assistants. */
  readonly inputs: readonly KubeObject[];
}

const CAPSULE = 'platform.space/capsule';
const STORED_INPUT = 'platform.space/stored-input';
/**
 * Annotations that are not copied: a restore sets the first itself, and by the second tools recognise an object of
 * another name.
 */
const OF_ITS_OWN = [RESTORING, 'kubectl.kubernetes.io/last-applied-configuration'];

/** @throws RestoreProblem if the state has no such Capsule */
export function tenantIn(state: State, name: string): Tenant {
  const { taken, namespaces, objects } = state;
  const mine = objects.filter(({ metadata }) => metadata.namespace === namespaces.release);
  const capsules = mine.filter(({ kind }) => kind === 'Capsule');
  const capsule = capsules.find(({ metadata }) => metadata.name === name);
  if (capsule === undefined) {
    const names = capsules.map(({ metadata }) => metadata.name).join(', ');
    throw new RestoreProblem(
      `the state of ${taken} has no Capsule ${name}. It has: ${names === '' ? 'none' : names}. Name one of these, or give another time, with --at`,
    );
  }
  return {
    capsule: fresh(capsule),
    assistants: mine.filter(({ kind, spec }) => kind === 'Assistant' && spec.capsule === name).map(fresh),
    inputs: mine
      .filter(
        ({ kind, type, metadata }) =>
          kind === 'Secret' && type === STORED_INPUT && metadata.labels?.[CAPSULE] === name,
      )
      .map(fresh),
  };
}

const fresh = (object: KubeObject): KubeObject => asRestored(object, OF_ITS_OWN);

/**
 * Renames a Capsule. Its other objects in the same namespace get its name as a prefix, since those of the existing
 * Capsule have their own names.
 */
export function renamed({ capsule, assistants, inputs }: Tenant, to: string): Tenant {
  const nameFor = (name: string) => `${to}-${name}`;
  const brought = new Set(inputs.map(({ metadata }) => metadata.name));
  return {
    capsule: { ...capsule, metadata: { ...capsule.metadata, name: to } },
    assistants: assistants.map((one) => ({
      ...one,
      metadata: { ...one.metadata, name: nameFor(one.metadata.name) },
      spec: {
        ...one['spec'],
        capsule: to,
        ...(one['spec'].storedInputs === undefined
          ? {}
          : {
              storedInputs: rebound(one['spec'].storedInputs, (name) =>
                brought.has(name) ? nameFor(name) : name,
              ),
            }),
      },
    })),
    inputs: inputs.map((one) => ({
      ...one,
      metadata: {
        ...one.metadata,
        name: nameFor(one.metadata.name),
        labels: { ...one.metadata.labels, [CAPSULE]: to },
      },
    })),
  };
}

type Bound = Readonly<Record<string, { readonly secretKeyRef?: { readonly name: string } }>>;

const rebound = (bound: Bound, nameOf: (name: string) => string) =>
  Object.fromEntries(
    Object.entries(bound).map(([key, input]) => [
      key,
      input.secretKeyRef === undefined
        ? input
        : { ...input, secretKeyRef: { ...input.secretKeyRef, name: nameOf(input.secretKeyRef.name) } },
    ]),
  );

/** Something suspended gets no database when it is created, so it is suspended only after its data was restored. */
export const isSuspended = ({ spec }: KubeObject): boolean => spec.suspend === true;

export function withoutSuspend(object: KubeObject): KubeObject {
  const { suspend, ...spec } = object['spec'];
  return { ...object, spec };
}

/** The id by which brokers know an Assistant. */
export const idOf = ({ spec }: KubeObject): string => String(spec.manifest?.platform?.id ?? '');
