import { canonicalJson, type Manifest } from '@space/manifests';
import { type CompiledEgress, compileEgress } from '../egress/compile.ts';
import type { Assistant } from '../kinds.ts';
import { ANNOTATION, capsuleNamespace, LABEL, type SpaceNames } from '../names.ts';
import { sha256 } from '../runtime/digest.ts';

/** An Assistant with a valid manifest, and what follows from the two alone, made once in each reconcile. */
export interface Workload {
  readonly names: SpaceNames;
  readonly assistant: Assistant;
  readonly manifest: Manifest;
  /** SHA-256 of the canonical manifest, in hex. */
  readonly digest: string;
  readonly documents: { readonly manifest: Document; readonly genesis: Document };
  readonly egress: CompiledEgress;
}

/** A ConfigMap with one key, named by the digest of its text: all of it, since who writes two texts can have their digests begin alike. */
export interface Document {
  readonly name: string;
  readonly key: string;
  readonly text: string;
}

/** A manifest may be a megabyte, so that it is made canonical and hashed nowhere else in a reconcile. */
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
      manifest: { name: `${id}-manifest-${digest}`, key: 'manifest.json', text },
      genesis: { name: `${id}-genesis-${sha256(genesis)}`, key: 'genesis.txt', text: genesis },
    },
    egress: compileEgress(manifest),
  };
}

/** The Assistant and its id: all that the names and labels of its objects are made of. */
type Identity = Pick<Workload, 'names' | 'assistant' | 'manifest'>;

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

/** Metadata of an object in the Capsule's namespace: an ownerReference cannot name an Assistant in another namespace. */
export function workloadMetadata(workload: Identity, name: string) {
  return {
    name,
    namespace: workloadNamespace(workload),
    labels: workloadLabels(workload),
    annotations: { [ANNOTATION.owner]: workload.assistant.metadata.uid ?? '' },
  };
}
