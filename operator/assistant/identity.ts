import type { About } from '@space/contracts/egress';
import { canonicalJson, type Manifest } from '@space/manifests';
import { type CompiledEgress, compileEgress } from '../egress/compile.ts';
import type { Assistant } from '../kinds.ts';
import { ANNOTATION, capsuleNamespace, LABEL, type SpaceNames } from '../names.ts';
import { sha256 } from '../runtime/digest.ts';

/** An Assistant with a valid manifest, and what is derived from both, once in each reconcile. */
export interface Workload {
  readonly names: SpaceNames;
  readonly assistant: Assistant;
  readonly manifest: Manifest;
  /** SHA-256 of the canonical manifest, in hex. */
  readonly digest: string;
  readonly documents: { readonly manifest: Document; readonly genesis: Document };
  readonly egress: CompiledEgress;
}

/**
 * A ConfigMap with one key, named by the whole digest of its text: whoever writes two texts can make the beginnings of
 * their digests equal.
 */
export interface Document {
  readonly name: string;
  readonly key: string;
  readonly text: string;
}

/** Derives the workload. A manifest can be a megabyte, so it is canonicalised and hashed only here in a reconcile. */
export function describeWorkload(names: SpaceNames, assistant: Assistant, manifest: Manifest): Workload {
  const { id, genesis } = manifest.platform;
  const text = canonicalJson(manifest);
  const digest = sha256(text);
  return {
    names,
    assistant,
    manifest,
    digest,
    documents: {
      manifest: { name: manifestName(id, digest), key: 'manifest.json', text },
      genesis: { name: `${id}-genesis-${sha256(genesis)}`, key: 'genesis.txt', text: genesis },
    },
    egress: compileEgress(manifest),
  };
}

/** The name of the ConfigMap with a manifest, by the SHA-256 of its text in hex. */
export const manifestName = (id: string, digest: string): string => `${id}-manifest-${digest}`;

/** The Assistant and its id, from which names and labels of its objects are made. */
type Identity = Pick<Workload, 'names' | 'assistant' | 'manifest'>;

/** An Assistant that is being deleted, and its id. */
export interface Leaving {
  readonly assistant: Assistant;
  readonly id: string;
}

/** An Assistant as the egress gateway names it. */
export const aboutOf = ({ spec, metadata }: Assistant, id: string): About => ({
  capsule_id: spec.capsule,
  app_id: id,
  assistant_uid: metadata.uid ?? '',
});

export function workloadNamespace({ names, assistant }: Identity): string {
  return capsuleNamespace(names.space, assistant.spec.capsule);
}

export function workloadLabels({ names, assistant, manifest }: Identity): Record<string, string> {
  return {
    [LABEL.space]: names.space,
    [LABEL.capsule]: assistant.spec.capsule,
    [LABEL.assistant]: manifest.platform.id,
  };
}

/**
 * Metadata of an object in the Capsule's namespace. It has labels, since an ownerReference cannot name an Assistant in
 * another namespace.
 */
export function workloadMetadata(workload: Identity, name: string) {
  return {
    name,
    namespace: workloadNamespace(workload),
    labels: workloadLabels(workload),
    annotations: { [ANNOTATION.owner]: workload.assistant.metadata.uid ?? '' },
  };
}
