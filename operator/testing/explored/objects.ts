/** What the model has of Kubernetes, in the shape in which the operator's decisions take it. */
import type { Assistant, Capsule, Namespace as NamespaceObject, SecretObject } from '../../kinds.ts';
import { ANNOTATION, ASSISTANT_FINALIZER, CAPSULE_FINALIZER, capsuleNamespace, LABEL } from '../../names.ts';
import { manifest } from '../manifest.ts';
import { names } from '../names.ts';
import type { Claim, Namespace, Principal, Thing, Word } from './state.ts';

export const CAPSULE = 'household';
export const ASSISTANT = 'ledger';
export const NAMESPACE = capsuleNamespace(names.space, CAPSULE);
export const MANIFEST = manifest(ASSISTANT);
export const HOUR_MS = 3_600_000;
const BEGIN_MS = Date.parse('2026-03-01T10:00:00Z');

export const time = (hour: number) => new Date(BEGIN_MS + hour * HOUR_MS).toISOString();

/** Objects of the model never change, and neither do those that are made of them. */
function once<From extends object, To>(make: (from: From) => To): (from: From) => To {
  const made = new WeakMap<From, To>();
  return (from) => {
    const known = made.get(from);
    if (known !== undefined) return known;
    const one = make(from);
    made.set(from, one);
    return one;
  };
}

const policy = (word: Word) =>
  word === 0 ? {} : ({ deletionPolicy: word === 1 ? 'Drop' : 'Retain' } as const);
const deletion = ({ deleted }: Thing) => (deleted === 0 ? {} : { deletionTimestamp: time(deleted - 1) });
const conditionsOf = (types: readonly string[]) =>
  types.map((type) => ({
    ...{ type, status: 'True' as const, reason: 'Ready', message: '' },
    lastTransitionTime: time(0),
  }));

export const capsule = once(
  (thing: Thing): Capsule => ({
    metadata: {
      name: CAPSULE,
      namespace: names.namespace,
      uid: `capsule-${thing.uid}`,
      finalizers: thing.finalizer ? [CAPSULE_FINALIZER] : [],
      ...deletion(thing),
    },
    spec: policy(thing.word),
    status: {
      conditions: thing.ready ? conditionsOf(['NamespaceReady', 'NetworkReady', 'DatabaseReady']) : [],
    },
  }),
);

export const assistant = once(
  (thing: Thing): Assistant => ({
    metadata: {
      name: ASSISTANT,
      namespace: names.namespace,
      uid: `assistant-${thing.uid}`,
      finalizers: thing.finalizer ? [ASSISTANT_FINALIZER] : [],
      ...deletion(thing),
    },
    spec: {
      capsule: CAPSULE,
      image: `registry.example.org/ledger@sha256:${'0'.repeat(64)}`,
      manifest: MANIFEST,
      ...policy(thing.word),
    },
    status: {
      ...policy(thing.told),
      conditions: thing.ready ? conditionsOf(['DatabaseReady']) : [],
      ...(thing.ready ? { manifest: { id: ASSISTANT, version: '1.0.0', digest: '' } } : {}),
    },
  }),
);

export const namespace = once(
  ({ owner, going }: Namespace): NamespaceObject => ({
    metadata: {
      name: NAMESPACE,
      annotations: { [ANNOTATION.owner]: `capsule-${owner}` },
      labels: { [LABEL.capsule]: CAPSULE },
      ...(going ? { deletionTimestamp: time(0) } : {}),
    },
  }),
);

export const principal = once(
  ({ owner, token, url, released, retained }: Principal): SecretObject => ({
    metadata: {
      name: 'principal',
      annotations: {
        [ANNOTATION.owner]: `capsule-${owner}`,
        ...(released === 0 ? {} : { [ANNOTATION.finalized]: released === 1 ? 'begun' : 'true' }),
      },
      labels: { [LABEL.capsule]: CAPSULE, ...(retained ? { [LABEL.retained]: 'true' } : {}) },
    },
    data: { principal: `${token}`, ...(url ? { 'database-url': '' } : {}) },
  }),
);

export const claim = once(
  ({ owner, retained, url }: Claim): SecretObject => ({
    metadata: {
      name: 'claim',
      annotations: { [ANNOTATION.owner]: `assistant-${owner}` },
      labels: retained ? { [LABEL.retained]: 'true' } : {},
    },
    data: url === 0 ? {} : { DATABASE_URL: `${url}` },
  }),
);
