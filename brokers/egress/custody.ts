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
  /** UID of the Assistant: another one of the same name must not get the value. */
  readonly uid: string;
  readonly input: string;
  /** `definitionDigest` of the definition, computed once and not for each request. */
  readonly definition: string;
}

/** Sealed values of stored inputs, which are opened for single requests and never stored in plain text. */
export interface Custody {
  seal(owner: Owner, value: Secret<string>): Promise<string>;
  /** Undefined if the envelope was sealed for another owner or definition. */
  open(owner: Owner, envelope: string): Secret<string> | undefined;
  /** Whether it is sealed with a key that will be retired. */
  isOld(envelope: string): boolean;
  /** Whether the later one is the earlier one, or has its value sealed again since its key will be retired. */
  isSameEntry(owner: Owner, earlier: string, later: string): boolean;
  /** Seals a host's entity tag for the owner's Assistant, with the same result on every replica, in visible ASCII. */
  sealTag(owner: Owner, tag: string): string;
  /** Undefined if the text was not sealed for this owner, or its key is gone. */
  openTag(owner: Owner, text: string): string | undefined;
}

const PURPOSE = 'egress.stored-input';

/** The key id of an envelope, which has the form `<key id>:<JWE>`. */
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
  /** The last envelope of each owner with its opener. */
  const openers = new WeakMap<Owner, { readonly envelope: string; readonly opener: Opener }>();
  const openerFor = (owner: Owner, envelope: string): Opener => {
    const known = openers.get(owner);
    if (known?.envelope === envelope) return known.opener;
    const kid = keyIdOf(envelope);
    const opener = openerOf({ kid, jwe: envelope.slice(kid.length + 1) }, about(owner));
    openers.set(owner, { envelope, opener });
    return opener;
  };
  const isOld = (envelope: string) => keyIdOf(envelope) !== keyring().primary;
  const open: Custody['open'] = (owner, envelope) => {
    try {
      const plaintext = openerFor(owner, envelope).open(keyring()).reveal();
      const value = new Secret(plaintext.toString('latin1'));
      plaintext.fill(0);
      return value;
    } catch (error) {
      if (error instanceof EnvelopeError) return undefined;
      throw error;
    }
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
    open,
    isOld,
    isSameEntry(owner, earlier, later) {
      if (later === earlier) return true;
      if (!isOld(earlier) || isOld(later)) return false;
      const value = open(owner, later)?.reveal();
      return value !== undefined && value === open(owner, earlier)?.reveal();
    },
    sealTag: (owner, tag) => tags.seal(whose(owner), tag),
    openTag: (owner, text) => tags.open(whose(owner), text),
  };
}

/** A keyring for tests and development: what it has sealed cannot be opened by another process. */
export function passingKeyring(): Keyring {
  return parseKeyring(JSON.stringify({ primary: 'k1', keys: { k1: randomBytes(32).toString('base64url') } }));
}
