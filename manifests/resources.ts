import type { AssistantSpec } from './rules/assistant.ts';
import type { CapsuleSpec } from './rules/capsule.ts';

/** A condition of an object's status, as the Kubernetes API conventions have it. */
export interface StatusCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

/** The transition time of conditions that an object has from its schema, before an operator has looked at it. */
export const NEVER = '1970-01-01T00:00:00Z';

export interface CapsuleStatus {
  readonly observedGeneration?: number;
  readonly namespace?: string;
  readonly assistants?: { readonly total: number; readonly ready: number };
  /** Quantities, in coarse steps. */
  readonly usage?: { readonly database?: string; readonly storage?: string };
  readonly conditions?: readonly StatusCondition[];
}

export interface AssistantStatus {
  readonly observedGeneration?: number;
  /** The Capsule that it was accepted in. */
  readonly capsule?: string;
  readonly manifest?: { readonly id: string; readonly version: string; readonly digest: string };
  /** What holds when it is deleted. */
  readonly deletionPolicy?: 'Drop' | 'Retain';
  /** Quantities, in coarse steps: its database, and its own files. */
  readonly usage?: { readonly database?: string; readonly storage?: string };
  readonly conditions?: readonly StatusCondition[];
}

/** The part of `metadata` that every reader of a resource needs. */
interface ResourceMetadata {
  readonly name: string;
  readonly namespace: string;
  readonly uid?: string;
  readonly generation?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Resource<K extends string, Spec, Status> {
  readonly apiVersion: 'platform.space/v1';
  readonly kind: K;
  readonly metadata: ResourceMetadata;
  readonly spec: Spec;
  readonly status?: Status;
}

export type Capsule = Resource<'Capsule', CapsuleSpec, CapsuleStatus>;
export type Assistant = Resource<'Assistant', AssistantSpec, AssistantStatus>;
