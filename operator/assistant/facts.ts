import { checkManifest, type ManifestResult } from '@space/manifests';
import { type ConditionType, type Finding, unknown } from '../conditions.ts';
import { type Context, readCapsuleSecret } from '../context.ts';
import type { Assistant, Capsule, Deployment, Node, Pod, SecretObject } from '../kinds.ts';
import { ANNOTATION, capsuleNamespace, workloadObjectsSecretName, workloadSecretName } from '../names.ts';
import { sha256 } from '../runtime/digest.ts';
import { ReadRefusedError } from '../runtime/errors.ts';
import { makeKey } from '../runtime/kube-object.ts';
import { together } from '../runtime/together.ts';
import { reports } from '../sandbox/gate.ts';
import { CANARY } from '../sandbox/network.ts';
import { isReady } from '../sandbox/node.ts';
import { addressesOf, idOf, pair } from '../stores.ts';
import { registeredOwner } from './claim.ts';
import type { Claim } from './decide.ts';
import { describeWorkload, type Workload } from './identity.ts';
import { readStoredInputs } from './inputs/entered.ts';
import { compareInputs, type EnteredInputs, judgeInputs } from './inputs/judge.ts';
import { isCleared } from './inputs/seal.ts';
import { readSealed } from './inputs/sealed.ts';
import { podsOf } from './pods.ts';

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
  readonly inputsBound: Finding;
  /**
   * Whether this Assistant owns the workload Secret and the Secret has a URL; undefined without the Secret, which goes
   * with its namespace. Then only the status says what there was.
   */
  readonly provisioned: boolean | undefined;
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

/** A fact that the operator has no right to read, with the condition that says so. */
export class UnreadFactError extends Error {
  override readonly name = 'UnreadFactError';
  readonly condition: ConditionType;

  constructor(condition: ConditionType, cause: ReadRefusedError) {
    super(`a right to read is missing: ${cause.message}`, { cause });
    this.condition = condition;
  }
}

const toldIn =
  (condition: ConditionType) =>
  (error: unknown): never => {
    throw error instanceof ReadRefusedError ? new UnreadFactError(condition, error) : error;
  };

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
  const [{ databaseSecret, objectStoreSecret }, bound] = await together([
    // The conditions of database and files still say what there was, which a deletion decides by.
    readSecrets(context, namespace, id, signal).catch(toldIn('WorkloadReady')),
    readInputs(context, workload, signal).catch(toldIn('InputsBound')),
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
      rivals: id === undefined ? [] : stores.assistants.by('id', pair(capsuleName, id)),
    },
    ...bound,
    provisioned: databaseSecret && owner === uid && databaseSecret.data?.['DATABASE_URL'] !== undefined,
    objects: context.objectStore && { registered: isRegistered(objectStoreSecret, uid) },
    databaseSecret,
    objectStoreSecret,
    // A running Deployment is observed even if its manifest is no longer valid, or has another id.
    ...runningParts(context, assistant, namespace, idOf(assistant)),
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
    id === undefined ? undefined : readCapsuleSecret(context, namespace, name(id), signal);
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

/**
 * The entered and the sealed values of stored inputs. For a manifest without stored inputs only what is left of an
 * earlier one is read, once for each version of the Assistant.
 */
async function readInputs(
  context: Context,
  workload: Workload | undefined,
  signal: AbortSignal,
): Promise<EnteredInputs & Pick<Facts, 'inputsBound'>> {
  if (!workload) return { ...NO_INPUTS, inputsBound: NO_MANIFEST };
  const { assistant, manifest, egress } = workload;
  const asks = Object.keys(manifest.stored_inputs ?? {}).length > 0;
  const [entered, sealed] = await Promise.all([
    asks ? readStoredInputs(context, assistant, manifest, signal) : NO_INPUTS.entered,
    asks || !isCleared(assistant)
      ? readSealed(context, assistant, manifest.platform.id, signal)
      : NO_INPUTS.sealed,
  ]);
  const known = await compareInputs(context, { entered, sealed }, egress.policy.inputs);
  return { ...known, inputsBound: judgeInputs(known, egress.policy.inputs) };
}

function runningParts(
  context: Context,
  { metadata: { uid }, spec: { capsule } }: Assistant,
  namespace: string,
  id: string | undefined,
): Pick<Facts, 'deployment' | 'pods' | 'without' | 'unready'> {
  if (id === undefined) return { deployment: undefined, pods: [], without: new Set(), unready: new Set() };
  const { names, stores } = context;
  const deployment = stores.deployments.get(makeKey(namespace, id));
  const pods = podsOf(stores, { uid, capsule, id });
  const nodes = pods.flatMap(({ spec }) => stores.nodes.get(spec?.nodeName ?? '') ?? []);
  return {
    deployment: deployment?.metadata.annotations?.[ANNOTATION.owner] === uid ? deployment : undefined,
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
