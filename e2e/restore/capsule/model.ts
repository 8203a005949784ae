/** The types that the parts of a restore of one Capsule exchange. */
import type { Steps } from '../../progress/index.ts';
import type { Kube } from '../../space/kube.ts';
import type { Place } from '../place.ts';
import type { Kubectl } from './load.ts';
import type { Namespaces } from './objects.ts';
import type { Database, Files } from './queries.ts';
import type { Tenant } from './tenant.ts';

export interface CapsuleRestore {
  readonly kube: Kube;
  readonly kubectl: Kubectl;
  readonly space: string;
  readonly namespace: string;
  readonly capsule: string;
  /** The name that the restored Capsule gets. */
  readonly as: string;
  /** The moment to restore; undefined for the end of the backup. */
  readonly at: string | undefined;
  readonly identities: readonly string[];
  readonly steps: Steps;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** The containers in which the restore runs programs. */
export interface Places {
  /** The Space's own server, as its superuser. */
  readonly server: Place;
  readonly scratch: Place;
  readonly loader: Place;
  readonly objects: Place;
}

/** What existed at that moment. */
export interface PastCapsule {
  readonly tenant: Tenant;
  readonly taken: string;
  readonly reached: string;
  readonly databases: readonly Database[];
  readonly files: Files | undefined;
}

export const namespacesOf = ({ space, namespace }: CapsuleRestore): Namespaces => ({
  release: namespace,
  system: `${space}-system`,
  services: `${space}-services`,
});
