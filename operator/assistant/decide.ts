import {
  type AssistantSpec,
  type CapsuleSpec,
  checkAssistantSpec,
  type Manifest,
  type ManifestResult,
  summarize,
} from '@space/manifests';
import { type ConditionType, type Finding, type Findings, inOrder, no, unknown, yes } from '../conditions.ts';
import type { Assistant, Capsule } from '../kinds.ts';
import { ANNOTATION, ASSISTANT_FINALIZER, LABEL } from '../names.ts';
import { claimedId } from '../stores.ts';
import type { Workload } from './identity.ts';

/** The owner of an id, and the Assistants that claim it. */
export interface Claim {
  /** UID in the workload Secret, if there is one. */
  readonly registered: string | undefined;
  /** All Assistants of the Capsule with this id, including this one. */
  readonly rivals: readonly Assistant[];
}

/** Whether the spec and its manifest are valid. Admission has checked both, but the operator does not rely on that. */
export function decideAccepted(spec: AssistantSpec, manifest: ManifestResult): Finding {
  if (!manifest.ok) return no('ManifestInvalid', `The manifest is not valid. ${summarize(manifest.errors)}`);
  const whole = checkAssistantSpec(spec);
  if (!whole.ok) return no('SpecInvalid', `The spec is not valid. ${summarize(whole.errors)}`);
  const declared = manifest.manifest.stored_inputs ?? {};
  const unasked = Object.keys(spec.storedInputs ?? {}).find((key) => !Object.hasOwn(declared, key));
  if (unasked !== undefined) {
    return no(
      'StoredInputUnknown',
      `spec.storedInputs names "${unasked}", which the manifest does not ask for. Remove it.`,
    );
  }
  return yes('Ready', 'The manifest and its references are valid.');
}

/** Capsule and id of an Assistant never change, since nobody would own what was created in or under the first one. */
export function decideIdentity(assistant: Assistant): Finding | undefined {
  const { capsule } = assistant.spec;
  if (assistant.movedTo !== undefined)
    return no('SpecInvalid', `spec.capsule was "${capsule}" ${UNCHANGEABLE} with its id there has.`);
  const known = formerId(assistant);
  if (known === undefined) return undefined;
  return no('SpecInvalid', `The manifest's platform.id was "${known}" ${UNCHANGEABLE} with that id has.`);
}

const UNCHANGEABLE =
  'and cannot change, nor be changed back. Create another Assistant, or this one again: with spec.deletionPolicy "Retain" it is deleted without its data, which the next one';

/** The id that the Assistant has, if its manifest names another one: its pods and its data are those of the former. */
export function formerId(assistant: Assistant): string | undefined {
  const known = assistant.status?.manifest?.id;
  return known === claimedId(assistant) ? undefined : known;
}

/**
 * Whether the Capsule's quota of Assistants has room for this one. An Assistant that was admitted before stays
 * admitted; after that, older ones come first.
 */
export function decideAssistantQuota(
  assistant: Assistant,
  capsule: Capsule | undefined,
  all: readonly Assistant[],
): Finding | undefined {
  const most = capsule?.spec.quota?.assistants;
  if (most === undefined) return undefined;
  const older = all.filter((other) => comesBefore(other, assistant));
  if (older.length < most) return undefined;
  const counted = older.some(isGoing) ? ', counting those that are being deleted' : '';
  return no(
    'QuotaExceeded',
    `The Capsule has as many Assistants as it may have (${most})${counted}. Delete one, or raise spec.quota.assistants.`,
  );
}

/**
 * The registered owner keeps its id. If none is registered, one that was accepted has it, since the record may have been
 * lost with its namespace, and else the oldest claimant.
 */
export function decideOwner(assistant: Assistant, { registered, rivals }: Claim): Finding | undefined {
  const { uid } = assistant.metadata;
  if (registered === uid) return undefined;
  const id = claimedId(assistant);
  if (registered !== undefined) {
    const owner = rivals.find((rival) => rival.metadata.uid === registered);
    if (owner) return belongsTo(owner, id);
    return no(
      'DuplicateIdentifier',
      `The id "${id}" is registered to an Assistant that was removed without its clean-up. Label Secret "${id}-database" in the Capsule's namespace ${LABEL.retained}=true to give its data to this one.`,
    );
  }
  const first = rivals.find((rival) => comesBefore(rival, assistant));
  return first && belongsTo(first, id);
}

/** An id cannot be changed, also while it is refused. */
function belongsTo(owner: Assistant, id: string | undefined): Finding {
  const advice = isGoing(owner)
    ? ', which is being deleted; its condition Finalized says what that waits for. Wait for that, or create this one again with another id.'
    : '. Create this one again with another id, or delete that one.';
  return no(
    'DuplicateIdentifier',
    `The id "${id}" belongs to Assistant "${owner.metadata.name}" of this Capsule${advice}`,
  );
}

const isGoing = ({ metadata }: Assistant): boolean => metadata.deletionTimestamp !== undefined;

function comesBefore(a: Assistant, than: Assistant): boolean {
  const [placed, thanPlaced] = [a, than].map(({ metadata }) =>
    metadata.finalizers?.includes(ASSISTANT_FINALIZER),
  );
  return placed === thanPlaced ? isOlder(a, than) : placed === true;
}

function isOlder(a: Assistant, than: Assistant): boolean {
  const [at, bt] = [a, than].map(({ metadata }) => metadata.creationTimestamp ?? '');
  if (at !== bt) return (at ?? '') < (bt ?? '');
  return (a.metadata.uid ?? '') < (than.metadata.uid ?? '');
}

const CAPSULE_NEEDS = ['NamespaceReady', 'NetworkReady', 'DatabaseReady'];

export function decideCapsule(name: string, capsule: Capsule | undefined): Finding {
  if (!capsule)
    return no(
      'CapsuleNotFound',
      `There is no Capsule "${name}" in this namespace. Create it; this Assistant then continues by itself.`,
    );
  if (capsule.metadata.deletionTimestamp !== undefined) {
    return no('Deleting', `Capsule "${name}" is being deleted and accepts no Assistants.`);
  }
  const conditions = capsule.status?.conditions ?? [];
  const has = (wanted: string) => conditions.some(({ type }) => type === wanted);
  const needs = has('ObjectStoreReady') ? [...CAPSULE_NEEDS, 'ObjectStoreReady'] : CAPSULE_NEEDS;
  const missing = needs.find(
    (need) => !conditions.some(({ type, status }) => type === need && status === 'True'),
  );
  if (missing === undefined) return yes('Ready', `Capsule "${name}" is ready.`);
  const ready = conditions.find(({ type }) => type === 'Ready');
  const why = ready?.status === 'False' ? ready.message : `${missing} is not known yet.`;
  return no('CapsuleNotReady', `Capsule "${name}" is not ready. ${why}`);
}

/** Every scope that the manifest asks for must be granted by the Capsule's administrator. */
export function decideIntegrations(manifest: Manifest, granted: CapsuleSpec['integrations']): Finding {
  const missing = Object.entries(manifest.integrations ?? {}).flatMap(([name, { scopes }]) => {
    const given = new Set(granted?.[name]?.scopes ?? []);
    const without = scopes.filter((scope) => !given.has(scope));
    return without.length > 0 ? [`${name} (${without.join(', ')})`] : [];
  });
  return missing.length === 0
    ? yes('Ready', 'All scopes that it asks for are granted.')
    : no(
        'ScopesNotGranted',
        `Not granted: ${missing.join('; ')}. An administrator grants them in the Capsule's spec.integrations.`,
      );
}

/**
 * With `approval: manual`, a manifest that asks for any power waits until an administrator has named its digest.
 * Another manifest has another digest, and waits again.
 */
export function decideApproval(
  assistant: Assistant,
  { manifest, digest: hex }: Pick<Workload, 'manifest' | 'digest'>,
  capsule: Capsule | undefined,
): Finding | undefined {
  if (capsule?.spec.approval !== 'manual' || !asksForPower(manifest)) return undefined;
  const digest = `sha256:${hex}`;
  if (assistant.metadata.annotations?.[ANNOTATION.approved] === digest) return undefined;
  return no(
    'ApprovalMissing',
    `A person with the verb approve on capsules/${capsule.metadata.name} has to approve it, since it asks for powers. To approve this manifest: kubectl -n ${assistant.metadata.namespace} annotate --overwrite assistant ${assistant.metadata.name} ${ANNOTATION.approved}=${digest}`,
  );
}

function asksForPower({ network, integrations = {}, stored_inputs = {} }: Manifest): boolean {
  return [network.allowed_hosts, Object.keys(integrations), Object.keys(stored_inputs)].some(
    ({ length }) => length > 0,
  );
}

/** The type of the first finding that is not True, in the order of the steps. */
export function firstUnmet(findings: Findings): ConditionType | undefined {
  return inOrder(findings).find(([, finding]) => finding.status !== 'True')?.[0];
}

export const waitsFor = (condition: ConditionType): Finding => unknown('Waiting', `Waits for ${condition}.`);
