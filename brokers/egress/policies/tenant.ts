import type { Indexed, IndexedSet } from '@space/broker-kit';
import type { About } from '@space/contracts/egress';
import { type Definition, definitionDigest, type SigningProfile } from '@space/manifests';
import { compileRoutes, type RouteMatch } from '../core/route.ts';
import type { Slot } from '../core/slot.ts';
import type { Owner } from '../custody.ts';

/** A stored input with everything that decides about requests. */
export interface LiveInput {
  readonly key: string;
  readonly host: string;
  readonly match: RouteMatch;
  readonly slot: Slot;
  readonly signing: SigningProfile | undefined;
  readonly owner: Owner;
  readonly envelope: string;
  /** The envelope by which answers with the value are counted: one that is sealed again has no other value. */
  readonly counted: string;
  /** The digest of its definition. */
  readonly digest: string;
  /** False while its value was entered for another definition. */
  readonly usable: boolean;
}

/** A tunnel or request that a policy permits, and that ends when a later policy does not. */
export interface OpenConnection extends Indexed {
  /** Whether the present policy would let it begin. */
  permitted(): boolean;
  /** Its destination: the host, and the stored input once it is known. */
  called(): { readonly host: string; readonly key?: string } | undefined;
  end(): void;
}

/** The policy of one Assistant, and its open connections. */
export interface Tenant {
  readonly capsule: string;
  readonly app: string;
  readonly uid: string;
  generation: number;
  revision: string;
  principals: readonly string[];
  addresses: ReadonlySet<string>;
  hosts: ReadonlySet<string>;
  inputs: ReadonlyMap<string, LiveInput>;
  readonly connections: IndexedSet<OpenConnection>;
}

export const tenantKey = ({ capsule_id, app_id }: { capsule_id: string; app_id: string }) =>
  `${capsule_id}/${app_id}`;

export function liveInput(
  about: About,
  key: string,
  input: { definition: Definition; envelope: string },
  usable: boolean,
): LiveInput {
  const { definition, envelope } = input;
  const { header, query = '', scheme, host } = definition;
  const owner = ownerOf(about, key, definition);
  return {
    key,
    host,
    match: compileRoutes(definition.routes),
    slot: header === undefined ? { kind: 'query', name: query } : { kind: 'header', name: header, scheme },
    signing: definition.hmac as SigningProfile | undefined,
    owner,
    envelope,
    counted: envelope,
    digest: owner.definition,
    usable,
  };
}

export function ownerOf(
  { capsule_id, app_id, assistant_uid }: About,
  input: string,
  definition: Definition,
): Owner {
  const digest = definitionDigest(definition);
  return { capsule: capsule_id, app: app_id, uid: assistant_uid, input, definition: digest };
}
