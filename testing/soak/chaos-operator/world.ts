import type { SpaceNames } from '../../../operator/names.ts';
import type { ApiClient } from '../../../operator/runtime/client.ts';
import type { KubeObject, Resource } from '../../../operator/runtime/kube-object.ts';
import type { Killable } from './killer.ts';
import type { DesiredAssistant, Make } from './population.ts';

/** The Space under test: its parts that are killed, and what its users and an auditor can see. */
export interface World {
  readonly title: string;
  readonly space: SpaceView;
  readonly parts: readonly Killable[];
  /** What a user requests under this id. */
  readonly make: Make;
  readonly tenant: Tenant;
  /** The administrators of an installed Space. */
  readonly administrators?: Administrators;
  readonly sight: Sight;
  /** The suffixes of the Secrets of every Assistant that has run. */
  readonly secrets: readonly string[];
  /** Parts that ended without being killed, and how. */
  ended(): readonly string[];
  /** Further rows of the report. */
  rows(): readonly { readonly what: string; readonly count: number }[];
  close(): Promise<void>;
}

/** What administrators can learn about the tenants. */
export interface TenantsView {
  /** An Assistant with marked data, which may be restored. */
  marked(): DesiredAssistant | undefined;
  /** Whether this incarnation still exists. */
  isThere(wished: DesiredAssistant): boolean;
}

/** The acts of the administrators, one after another. */
export interface Administrators {
  /** The number of acts of each kind, and of their repetitions. */
  readonly done: Readonly<Record<string, number>>;
  /** Acts that never succeeded. */
  readonly problems: readonly string[];
  /** Acts while `lasts` is true; an act that has begun is completed. */
  act(lasts: () => boolean, keeping: TenantsView): Promise<void>;
  /** Restores the Space to its former values, without a backup. */
  end(): Promise<void>;
}

/** A Space as its API server shows it. */
export interface SpaceView {
  readonly client: ApiClient;
  readonly names: Pick<SpaceNames, 'space' | 'namespace' | 'systemNamespace' | 'servicesNamespace'>;
  namespaceOf(capsule: string): string;
  get<T extends KubeObject>(resource: Resource, name: string, namespace?: string): Promise<T | undefined>;
}

export type Ask = <Row extends Record<string, unknown>>(statement: string) => Promise<Row[]>;

/** The state of a Space outside of its API server, as superusers see it. */
interface Sight {
  /** Reads the database broker's registry. */
  readonly databases: Ask;
  /** Reads the object-storage broker's registry. */
  readonly files: Ask;
  /** Identifies every object of a Capsule in the Space's bucket. */
  objects(): Promise<readonly string[]>;
}

/** What an Assistant's own code does with its data: it uses its URL and its token. */
export interface Tenant {
  /** Writes a mark of this incarnation into database and object store; false if either cannot be reached. */
  mark(wished: DesiredAssistant): Promise<boolean>;
  /** What is wrong with the URL, the token or the mark of a Ready Assistant. */
  problems(wished: DesiredAssistant, marked: boolean): Promise<string[]>;
}
