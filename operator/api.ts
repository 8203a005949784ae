import type { Condition } from './conditions.ts';

/** The two resources as the operator reads and writes them; the rules are in `manifests/`. */
export interface CapsuleSpec {
  readonly displayName?: string;
  readonly deletionPolicy?: 'Drop' | 'Retain';
  readonly quota?: {
    readonly cpu?: string | number;
    readonly memory?: string | number;
    readonly pods?: number;
    readonly assistants?: number;
  };
  readonly integrations?: Readonly<Record<string, { readonly scopes: readonly string[] }>>;
  readonly approval?: 'auto' | 'manual';
  readonly suspend?: boolean;
}

export interface CapsuleStatus {
  readonly observedGeneration?: number;
  readonly namespace?: string;
  readonly assistants?: { readonly total: number; readonly ready: number };
  readonly conditions?: readonly Condition[];
}

export interface AssistantSpec {
  readonly capsule: string;
  readonly manifest: unknown;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly port?: number;
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string | number>>;
    readonly limits?: Readonly<Record<string, string | number>>;
  };
  readonly replicas?: number;
  readonly storedInputs?: Readonly<
    Record<string, { readonly secretKeyRef: { readonly name: string; readonly key: string } }>
  >;
  readonly suspend?: boolean;
}

export interface AssistantStatus {
  readonly observedGeneration?: number;
  readonly manifest?: { readonly id: string; readonly version: string; readonly digest: string };
  readonly conditions?: readonly Condition[];
  readonly sandbox?: Readonly<Record<string, unknown>>;
}

/** The parts of a valid manifest that the operator acts on. */
export interface Manifest {
  readonly platform: { readonly id: string; readonly version: string; readonly genesis: string };
  readonly network: { readonly allowed_hosts: readonly string[] };
  readonly integrations?: Readonly<Record<string, { readonly scopes: readonly string[] }>>;
  readonly stored_inputs?: Readonly<Record<string, unknown>>;
}

export interface ManifestProblem {
  readonly pointer: string;
  readonly rule: string;
  readonly message: string;
}

export type ManifestCheck =
  | { readonly ok: true; readonly manifest: Manifest }
  | { readonly ok: false; readonly errors: readonly ManifestProblem[] };
