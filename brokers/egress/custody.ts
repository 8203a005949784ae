import { randomBytes } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import {
  EnvelopeError,
  type Keyring,
  type Opener,
  openerOf,
  parseKeyring,
  seal,
} from '@space/broker-kit/custody';
import { createTags } from './tags.ts';

/** The owner of a value, and the definition that it was entered for. */
export interface Owner {
  readonly capsule: string;
  readonly app: string;
  /** UID of the Assistant: another one of the same name was entrusted with nothing. */
  readonly uid: string;
  readonly input: string;
  /** `definitionDigest` of the definition, which need not be reckoned for each request. */
  readonly definition: string;
}

/** Values of stored inputs at rest: opened for the requests of a moment, and kept nowhere in the clear. */
export interface Custody {
  seal(owner: Owner, value: Secret<string>): Promise<string>;
  /** Undefined when it was sealed for somebody else, or to go elsewhere. */
  open(owner: Owner, envelope: string): Secret<string> | undefined;
  /** Whether it was sealed under a key that is to be retired. */
  isOld(envelope: string): boolean;
  /** A host's entity tag for the owner's Assistant: the same for the same tag on every replica, visible ASCII. */
  sealTag(owner: Owner, tag: string): string;
  /** Undefined for what was not sealed for this owner, or under a key that is gone. */
  openTag(owner: Owner, text: string): string | undefined;
}

const PURPOSE = 'egress.stored-input';

/** Envelopes are written `<key id>:<JWE>`. */
export const keyIdOf = (envelope: string): string => envelope.slice(0, envelope.indexOf(':'));

export function createCustody(space: string, keyring: () => Keyring): Custody {
  const about = ({ capsule, app, uid, input, definition }: Owner) =>
    ({
      purpose: PURPOSE,
      context: { space, capsule, app, uid, input, definition },
    }) as const;
  const tags = createTags(keyring);
  const whose = ({ capsule, app, uid, input, definition }: Owner) => [
    space,
    capsule,
    app,
    uid,
    input,
    definition,
  ];
  /** The last envelope of each owner, and the result of opening it. */
  const openers = new WeakMap<Owner, { readonly envelope: string; readonly opener: Opener }>();
  const openerFor = (owner: Owner, envelope: string): Opener => {
    const known = openers.get(owner);
    if (known?.envelope === envelope) return known.opener;
    const kid = keyIdOf(envelope);
    const opener = openerOf({ kid, jwe: envelope.slice(kid.length + 1) }, about(owner));
    openers.set(owner, { envelope, opener });
    return opener;
  };
  return {
    async seal(owner, value) {
      const plaintext = Buffer.from(value.reveal(), 'latin1');
      try {
        const { kid, jwe } = await seal(keyring(), { ...about(owner), plaintext });
        return `${kid}:${jwe}`;
      } finally {
        plaintext.fill(0);
      }
    },
    open(owner, envelope) {
      try {
        const plaintext = openerFor(owner, envelope).open(keyring()).reveal();
        const value = new Secret(plaintext.toString('latin1'));
        plaintext.fill(0);
        return value;
      } catch (error) {
        if (error instanceof EnvelopeError) return undefined;
        throw error;
      }
    },
    isOld: (envelope) => keyIdOf(envelope) !== keyring().primary,
    sealTag: (owner, tag) => tags.seal(whose(owner), tag),
    openTag: (owner, text) => tags.open(whose(owner), text),
  };
}

/** A ring that lives as long as the process, for tests and development: what it sealed cannot be opened after it. */
export function passingKeyring(): Keyring {
  return parseKeyring(JSON.stringify({ primary: 'k1', keys: { k1: randomBytes(32).toString('base64url') } }));
}
