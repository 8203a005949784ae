import { checkManifest, type ManifestResult } from '@space/manifests';
import { type Finding, unknown } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import type { Assistant, Capsule, Deployment, Node, Pod, SecretObject } from '../kinds.ts';
import { ANNOTATION, capsuleNamespace, workloadObjectsSecretName, workloadSecretName } from '../names.ts';
import { sha256 } from '../runtime/digest.ts';
import { makeKey } from '../runtime/kube-object.ts';
import { reports } from '../sandbox/gate.ts';
import { CANARY } from '../sandbox/network.ts';
import { isReady } from '../sandbox/node.ts';
import { addressesOf, pair } from '../stores.ts';
import { registeredOwner } from './claim.ts';
import type { Claim } from './decide.ts';
import { describeWorkload, type Workload } from './identity.ts';
import { readStoredInputs } from './inputs/entered.ts';
import { compareInputs, type EnteredInputs, judgeInputs } from './inputs/seal.ts';
import { readSealed } from './inputs/sealed.ts';

/** Everything that a reconcile decides by, read and compiled once before anything is decided or done. */
export interface Facts extends EnteredInputs {
  readonly assistant: Assistant;
  readonly check: ManifestResult;
  /** Undefined while the manifest is not valid. */
  readonly workload: Workload | undefined;
  readonly capsule: Capsule | undefined;
  readonly sandbox: Finding;
  /** All Assistants of the Capsule, including this one. */
  readonly neighbours: readonly Assistant[];
  readonly claim: Claim;
  /** The condition `InputsBound`. */
  readonly inputs: Finding;
  /** Whether this Assistant owns the workload Secret and the Secret has a URL. */
  readonly provisioned: boolean;
  /** Undefined in a Space without an object store. */
  readonly objects: { readonly registered: boolean } | undefined;
  /** The Secret that claims the id and holds the URL of the database. */
  readonly databaseSecret: SecretObject | undefined;
  /** The Secret with the Assistant's token for the object store. */
  readonly objectStoreSecret: SecretObject | undefined;
  /** The Assistant's own Deployment; one of another Assistant with the same id is not included. */
  readonly deployment: Deployment | undefined;
  readonly pods: readonly Pod[];
  /** Nodes of the Assistant's pods that report handlers, but not the required one. */
  readonly without: ReadonlySet<string>;
  /** Nodes of the Assistant's pods that are not Ready. */
  readonly unready: ReadonlySet<string>;
  /** Addresses of the Services that the pods connect to. */
  readonly addresses: Readonly<Record<'postgres' | 'objectstore' | 'egress', string | undefined>>;
  /** Addresses of the Service that pods must not reach. */
  readonly canaryAddresses: readonly string[];
}

/** The facts of an Assistant with a valid manifest, whose steps can be taken. */
export interface RunFacts extends Facts {
  readonly workload: Workload;
}

/** Gathers the facts. Only Secrets are read from the API server; everything else comes from the stores. */
export async function gatherFacts(
  context: Context,
  assistant: Assistant,
  signal: AbortSignal,
): Promise<Facts> {
  const { names, stores } = context;
  const { uid } = assistant.metadata;
  const { capsule: capsuleName } = assistant.spec;
  const check = checkManifest(assistant.spec.manifest);
  const workload = check.ok ? describeWorkload(names, assistant, check.manifest) : undefined;
  const id = workload?.manifest.platform.id;
  const namespace = capsuleNamespace(names.space, capsuleName);
  const [{ databaseSecret, objectStoreSecret }, bound] = await Promise.all([
    readSecrets(context, namespace, id, signal),
    readInputs(context, workload, signal),
  ]);
  const addressOf = (component: string) => addressesOf(names, stores.services, component)[0];
  const owner = registeredOwner(databaseSecret);
  return {
    assistant,
    check,
    workload,
    capsule: stores.capsules.get(makeKey(names.namespace, capsuleName)),
    sandbox: context.gate(),
    neighbours: stores.assistants.by('capsule', capsuleName),
    claim: {
      registered: owner,
      rivals: id === undefined ? [] : stores.assistants.by('claim', pair(capsuleName, id)),
    },
    ...bound,
    provisioned: owner === uid && databaseSecret?.data?.['DATABASE_URL'] !== undefined,
    objects: context.objectStore && { registered: isRegistered(objectStoreSecret, uid) },
    databaseSecret,
    objectStoreSecret,
    // A running Deployment is observed even if its manifest is no longer valid.
    ...runningParts(context, assistant, namespace, id ?? assistant.status?.manifest?.id),
    addresses: {
      postgres: addressOf('postgres'),
      objectstore: addressOf('objectstore'),
      egress: addressOf('egress'),
    },
    canaryAddresses: addressesOf(names, stores.services, CANARY),
  };
}

async function readSecrets(
  context: Context,
  namespace: string,
  id: string | undefined,
  signal: AbortSignal,
): Promise<Pick<Facts, 'databaseSecret' | 'objectStoreSecret'>> {
  const read = async (name: (id: string) => string) =>
    id === undefined ? undefined : readWorkloadSecret(context, namespace, name(id), signal);
  const [databaseSecret, objectStoreSecret] = await Promise.all([
    read(workloadSecretName),
    context.objectStore ? read(workloadObjectsSecretName) : undefined,
  ]);
  return { databaseSecret, objectStoreSecret };
}

const NO_INPUTS: EnteredInputs = {
  entered: { values: new Map(), problems: new Map() },
  sealed: { secret: undefined, inputs: {} },
};
const NO_MANIFEST: Finding = unknown('Waiting', 'Waits for Accepted.');

/** The entered and the sealed values of stored inputs. No Secret is read for a manifest without stored inputs. */
async function readInputs(
  context: Context,
  workload: Workload | undefined,
  signal: AbortSignal,
): Promise<EnteredInputs & Pick<Facts, 'inputs'>> {
  if (!workload) return { ...NO_INPUTS, inputs: NO_MANIFEST };
  const { assistant, manifest, egress } = workload;
  const known =
    Object.keys(manifest.stored_inputs ?? {}).length === 0
      ? NO_INPUTS
      : await Promise.all([
          readStoredInputs(context, assistant, manifest, signal),
          readSealed(context, assistant, manifest.platform.id, signal),
        ]).then(([entered, sealed]) => compareInputs({ entered, sealed }, egress.policy.inputs));
  return { ...known, inputs: judgeInputs(known, egress.policy.inputs) };
}

function runningParts(
  context: Context,
  { metadata: { uid }, spec: { capsule } }: Assistant,
  namespace: string,
  id: string | undefined,
): Pick<Facts, 'deployment' | 'pods' | 'without' | 'unready'> {
  if (id === undefined) return { deployment: undefined, pods: [], without: new Set(), unready: new Set() };
  const { names, stores } = context;
  const isOwn = (object: Deployment | Pod) => object.metadata.annotations?.[ANNOTATION.owner] === uid;
  const deployment = stores.deployments.get(makeKey(namespace, id));
  const pods = stores.pods.by('assistant', pair(capsule, id)).filter(isOwn);
  const nodes = pods.flatMap(({ spec }) => stores.nodes.get(spec?.nodeName ?? '') ?? []);
  return {
    deployment: deployment && isOwn(deployment) ? deployment : undefined,
    pods,
    without: namesOf(nodes.filter((node) => reports(node, names.handler) === false)),
    unready: namesOf(nodes.filter((node) => !isReady(node))),
  };
}

const namesOf = (nodes: readonly Node[]) => new Set(nodes.map(({ metadata }) => metadata.name));

/** Whether the broker knows the token that the Secret holds. */
export function isRegistered(
  secret: SecretObject | undefined,
  owner: string | undefined,
): secret is SecretObject {
  const token = secret?.data?.['token'];
  const annotations = secret?.metadata.annotations;
  return (
    token !== undefined &&
    annotations?.[ANNOTATION.registered] === sha256(token) &&
    annotations[ANNOTATION.owner] === owner
  );
}

/**
 * Reads a Secret of the Capsule's namespace. A namespace that does not exist yet has none, and the API server would
 * refuse the request.
 */
export async function readWorkloadSecret(
  context: Context,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<SecretObject | undefined> {
  if (!context.stores.roleBindings.get(makeKey(namespace, 'space-operator'))) return undefined;
  return readSecret(context, namespace, name, signal);
}
