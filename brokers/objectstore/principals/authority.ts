import { refusal, ServiceError, type TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { authorisedCapsule, type Call } from '@space/broker-kit/principals';
import type { Bindings } from './bindings.ts';
import type { PrefixNames } from './prefix-names.ts';
import { findCapsule, putCapsuleMac, storeOf } from './rows.ts';

interface Authorised {
  readonly incarnation: number;
  readonly state: 'active' | 'dropping';
  readonly prefix: string;
}

/** Decides who may act for a Capsule: only the holder of the principal that this broker registered. */
export interface CapsuleAuthority {
  /** The Capsule whose principal has the digest; undefined if there is none. */
  find(digest: TokenDigest): Promise<{ readonly capsule: string } | undefined>;
  /** Locks the Capsule and repeats all checks, since its row may have been retired or edited after the look-up. */
  authorise(session: Session, call: Call, capsule: string, operation: 'apps' | 'drop'): Promise<Authorised>;
  /** Binds a locked Capsule to its present principal. */
  bind(session: Session, capsule: string, principal: TokenDigest): Promise<void>;
}

interface AuthorityParts {
  readonly lookup: Session;
  readonly bindings: Pick<Bindings, 'capsule'>;
  readonly prefixNames: Pick<PrefixNames, 'capsule'>;
  /** Called for a row that this broker did not write. */
  readonly onForged: (capsule: string) => void;
}

export function createCapsuleAuthority({
  lookup,
  bindings,
  prefixNames,
  onForged,
}: AuthorityParts): CapsuleAuthority {
  return {
    find: async (digest) => {
      const row = await findCapsule(lookup, digest);
      if (row === undefined) return undefined;
      const { capsule, incarnation, prefix, mac } = row;
      if (bindings.capsule.holds({ capsule, incarnation, prefix, principal: digest }, mac))
        return { capsule };
      onForged(capsule);
      return undefined;
    },
    authorise: async (session, call, capsule, operation) => {
      const { incarnation, state } = await authorisedCapsule(session, call, capsule, operation);
      const { principal } = call;
      const { prefix, mac } = await storeOf(session, capsule);
      if (principal !== undefined && bindings.capsule.holds({ capsule, incarnation, prefix, principal }, mac))
        return { incarnation, state, prefix };
      onForged(capsule);
      throw refusal();
    },
    bind: async (session, capsule, principal) => {
      const { incarnation, prefix } = await storeOf(session, capsule);
      // A row that was edited does not become valid by being bound again.
      if (prefixNames.capsule(capsule, incarnation) !== prefix)
        throw new ServiceError('conflict', 'the prefix of the Capsule is not the one derived from its name');
      await putCapsuleMac(
        session,
        capsule,
        bindings.capsule.mac({ capsule, incarnation, prefix, principal }),
      );
    },
  };
}
