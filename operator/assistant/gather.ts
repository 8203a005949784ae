import type { ManifestResult } from '@space/manifests';
import { type Finding, unknown } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { compileEgress } from '../egress/compile.ts';
import { type EnteredInputs, judgeInputs } from '../egress/inputs.ts';
import { readSealed } from '../egress/secrets.ts';
import type { Assistant, Deployment, Pod, SecretObject } from '../kinds.ts';
import {
  ANNOTATION,
  capsuleNamespace,
  LABEL,
  workloadObjectsSecretName,
  workloadSecretName,
} from '../names.ts';
import { makeKey } from '../runtime/objects.ts';
import { reports } from '../sandbox/gate.ts';
import { pair } from '../stores.ts';
import { registeredOwner } from './database.ts';
import { readStoredInputs } from './inputs.ts';
import { isRegistered } from './objects.ts';
import type { Facts } from './plan.ts';

export interface Gathered extends Facts, EnteredInputs {
  readonly secret: SecretObject | undefined;
  /** With its token for the object store. */
  readonly token: SecretObject | undefined;
  /** This Assistant's own; another's under the same id is not seen. */
  readonly deployment: Deployment | undefined;
  readonly pods: readonly Pod[];
  /** Nodes of its pods that report handlers, and not the one that they need. */
  readonly without: ReadonlySet<string>;
  readonly postgresAddress: string | undefined;
  readonly objectStoreAddress: string | undefined;
}

/** All reads of a reconcile. Only Secrets need the API server. */
export async function gather(
  context: Context,
  assistant: Assistant,
  check: ManifestResult,
  signal: AbortSignal,
): Promise<Gathered> {
  const { names, stores } = context;
  const { capsule: capsuleName } = assistant.spec;
  const capsule = stores.capsules.get(makeKey(names.namespace, capsuleName));
  const id = check.ok ? check.manifest.platform.id : undefined;
  // What runs is looked after also when its manifest is not understood any more.
  const known = id ?? assistant.status?.manifest?.id;
  const namespace = capsuleNamespace(names.space, capsuleName);
  const read = async (name: (id: string) => string) =>
    id === undefined ? undefined : readWorkloadSecret(context, namespace, name(id), signal);
  const asks = check.ok && Object.keys(check.manifest.stored_inputs ?? {}).length > 0;
  const [secret, token, entered, sealed] = await Promise.all([
    read(workloadSecretName),
    context.objectStore ? read(workloadObjectsSecretName) : undefined,
    asks ? readStoredInputs(context, assistant, check.manifest, signal) : NOTHING_ENTERED,
    asks && id !== undefined ? readSealed(context, assistant, id, signal) : NOTHING_SEALED,
  ]);
  const owner = registeredOwner(secret);
  const pods =
    known === undefined
      ? []
      : stores.pods
          .by('assistant', pair(capsuleName, known))
          .filter((pod) => ownedBy(assistant.metadata.uid, pod));
  const { uid } = assistant.metadata;
  return {
    assistant,
    check,
    capsule,
    sandbox: context.gate(),
    neighbours: stores.assistants.by('capsule', capsuleName),
    claim: {
      registered: owner,
      rivals: id === undefined ? [] : stores.assistants.by('claim', pair(capsuleName, id)),
    },
    inputs: check.ok
      ? judgeInputs({ entered, sealed }, compileEgress(check.manifest).policy.inputs)
      : NO_MANIFEST,
    entered,
    sealed,
    provisioned: owner === uid && secret?.data?.['DATABASE_URL'] !== undefined,
    objects: context.objectStore && { registered: isRegistered(token, uid) },
    secret,
    token,
    deployment:
      known === undefined ? undefined : ownedBy(uid, stores.deployments.get(makeKey(namespace, known))),
    pods,
    without: nodesWithout(context, pods),
    postgresAddress: addressOf(context, 'postgres'),
    objectStoreAddress: addressOf(context, 'objectstore'),
  };
}

function nodesWithout({ names, stores }: Context, pods: readonly Pod[]): ReadonlySet<string> {
  const nodes = pods.flatMap(({ spec }) => stores.nodes.get(spec?.nodeName ?? '') ?? []);
  const without = nodes.filter((node) => reports(node, names.handler) === false);
  return new Set(without.map(({ metadata }) => metadata.name));
}

const NOTHING_ENTERED = { values: new Map(), problems: new Map() };
const NOTHING_SEALED = { secret: undefined, inputs: {} };
const NO_MANIFEST: Finding = unknown('Waiting', 'Waits for Accepted.');

/** A namespace that is not there yet holds no Secret, and asking would be refused. */
export async function readWorkloadSecret(
  context: Context,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<SecretObject | undefined> {
  if (!context.stores.roleBindings.get(makeKey(namespace, 'space-operator'))) return undefined;
  return readSecret(context, namespace, name, signal);
}

function ownedBy<T extends Deployment | Pod>(uid: string | undefined, object: T | undefined): T | undefined {
  return object?.metadata.annotations?.[ANNOTATION.owner] === uid ? object : undefined;
}

/** Of the service that Assistants reach under the name of its component. */
function addressOf(context: Context, component: string): string | undefined {
  const { names, stores } = context;
  const service = stores.services
    .by('component', component)
    .find(
      ({ metadata }) =>
        metadata.namespace === names.servicesNamespace && metadata.labels?.[LABEL.space] === names.space,
    );
  const address = service?.spec?.clusterIP;
  return address === 'None' ? undefined : address;
}
