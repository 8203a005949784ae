import type { SpaceNames } from '../../../operator/names.ts';
import type { ApiClient } from '../../../operator/runtime/client.ts';
import type { KubeObject, Resource } from '../../../operator/runtime/kube-object.ts';
import type { Killable } from './killer.ts';
import type { DesiredAssistant, Make } from './population.ts';

/** A Space with all that may be killed of it, and everything that its users and an auditor can see. */
export interface World {
  readonly title: string;
  readonly space: SpaceView;
  readonly parts: readonly Killable[];
  /** What a user asks for under this id. */
  readonly make: Make;
  readonly tenant: Tenant;
  /** Who keeps it, where it is an installed one. */
  readonly administrators?: Administrators;
  readonly sight: Sight;
  /** What every Assistant that has run has a Secret for. */
  readonly secrets: readonly string[];
  /** Parts that ended although nobody had killed them, and how. */
  ended(): readonly string[];
  /** More rows for the table. */
  rows(): readonly { readonly what: string; readonly count: number }[];
  close(): Promise<void>;
}

/** What administrators are told of the tenants. */
export interface TenantsView {
  /** One whose data is marked, and that may be restored. */
  marked(): DesiredAssistant | undefined;
  /** Whether nobody has deleted this incarnation yet. */
  isThere(wished: DesiredAssistant): boolean;
}

/** What the people who keep a Space do, one act after the other. */
export interface Administrators {
  /** How often each act was done, and how often it was begun again. */
  readonly done: Readonly<Record<string, number>>;
  /** Acts that never worked. */
  readonly problems: readonly string[];
  /** Acts while it lasts; an act that has begun is ended. */
  act(lasts: () => boolean, keeping: TenantsView): Promise<void>;
  /** The Space as it was before, without a backup. */
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

/** What a Space holds outside of its API server, as its superusers see it. */
interface Sight {
  /** Reads the database broker's registry. */
  readonly databases: Ask;
  /** Reads the object-storage broker's registry. */
  readonly files: Ask;
  /** Identifies every object of a Capsule in the Space's bucket. */
  objects(): Promise<readonly string[]>;
}

/** An Assistant's own code, as far as its data goes: it does with its URL and its token what a tenant would. */
export interface Tenant {
  /** Leaves a mark of this incarnation in database and object store; false when either cannot be reached now. */
  mark(wished: DesiredAssistant): Promise<boolean>;
  /** What is wrong with the URL, the token or a mark of one that is Ready. */
  problems(wished: DesiredAssistant, marked: boolean): Promise<string[]>;
}
