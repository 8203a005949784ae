import { timingSafeEqual } from 'node:crypto';
import { checkEnvelope, type Envelope, type Keyring, macOf, open, seal } from '@space/broker-kit/custody';
import {
  type CredentialSet,
  contextOf,
  headParts,
  type Inventory,
  type SealedSet,
  type StoredInventory,
} from './inventory.ts';

/** The two values of a set, which nothing but the signer of a request ever sees. */
export interface Credential {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

type Owner = Pick<Inventory, 'capsule' | 'incarnation'>;

const PURPOSE = 'objectstore.credential';

/** Seals, opens and checks what one Space keeps, under the keyring of the moment. */
export interface Seals {
  readonly primary: string;
  fingerprint(accessKeyId: string): string;
  sealSet(owner: Owner, set: CredentialSet, credential: Credential): Promise<SealedSet>;
  /** Throws an EnvelopeError for anything but what was sealed. */
  openSet(owner: Owner, set: SealedSet): Promise<Credential>;
  /** Seals the set again under the primary key, with `change`. */
  resealSet(owner: Owner, set: SealedSet, change?: Partial<CredentialSet>): Promise<SealedSet>;
  sealInventory(inventory: Inventory): StoredInventory;
  /** Why the stored inventory is not one that this Space wrote; undefined when it is. Decrypts nothing. */
  problemOf(stored: StoredInventory): string | undefined;
  /** Lower-case hex; undefined when the ring lacks the key. */
  mac(kid: string, purpose: 'request' | 'answer', parts: readonly string[]): string | undefined;
}

export function createSeals(space: string, keyring: Keyring): Seals {
  const headOf = (kid: string, inventory: Inventory) =>
    macOf(keyring, kid, 'objectstore.head', headParts(space, inventory));

  const sealSet: Seals['sealSet'] = async (owner, set, credential) => {
    const plaintext = encode(credential);
    try {
      const facts = factsOf(set);
      const envelope = await seal(keyring, {
        purpose: PURPOSE,
        context: contextOf(space, owner, facts),
        plaintext,
      });
      return { ...facts, envelope };
    } finally {
      plaintext.fill(0);
    }
  };

  const openSet: Seals['openSet'] = async (owner, set) => {
    const opened = await open(keyring, set.envelope, {
      purpose: PURPOSE,
      context: contextOf(space, owner, set),
    });
    try {
      return decode(opened.reveal());
    } finally {
      opened.reveal().fill(0);
    }
  };

  return {
    primary: keyring.primary,
    // Not keyed by generation or set: a person may see by it that two sets have one key.
    fingerprint: (accessKeyId) =>
      `fp_${macOf(keyring, keyring.primary, 'objectstore.fingerprint', [space, accessKeyId]).toString('hex').slice(0, 16)}`,
    sealSet,
    openSet,
    resealSet: async (owner, set, change = {}) =>
      sealSet(owner, { ...set, ...change }, await openSet(owner, set)),
    sealInventory: (inventory) => ({
      ...inventory,
      headKid: keyring.primary,
      head: headOf(keyring.primary, inventory).toString('hex'),
    }),
    problemOf: (stored) => {
      if (!keyring.has(stored.headKid)) return 'unknown_key';
      if (!sameHex(stored.head, headOf(stored.headKid, stored))) return 'head';
      return firstProblem(
        stored.sets.map((set) => () => checkSet(set.envelope, contextOf(space, stored, set))),
      );
    },
    mac: (kid, purpose, parts) =>
      keyring.has(kid)
        ? macOf(keyring, kid, `objectstore.${purpose}`, [space, ...parts]).toString('hex')
        : undefined,
  };
}

function checkSet(envelope: Envelope, context: ReturnType<typeof contextOf>): void {
  checkEnvelope(envelope, { purpose: PURPOSE, context });
}

function firstProblem(checks: readonly (() => void)[]): string | undefined {
  try {
    for (const check of checks) check();
    return undefined;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'envelope';
  }
}

/** Nothing but a set's facts, whatever else the object carries. */
function factsOf(set: CredentialSet): CredentialSet {
  const { setId, name, formVersion, generation, endpoint, region, bucket, addressing } = set;
  const { fingerprint, verifiedAt, createdAt, rotatedAt } = set;
  const routing = { endpoint, region, bucket, addressing };
  return { setId, name, formVersion, generation, ...routing, fingerprint, verifiedAt, createdAt, rotatedAt };
}

/** Both values with a length before the first: no parser, and nothing to escape. */
function encode({ accessKeyId, secretAccessKey }: Credential): Buffer {
  const id = Buffer.from(accessKeyId, 'utf8');
  const secret = Buffer.from(secretAccessKey, 'utf8');
  const bytes = Buffer.alloc(2 + id.length + secret.length);
  bytes.writeUInt16BE(id.length);
  bytes.set(id, 2);
  bytes.set(secret, 2 + id.length);
  id.fill(0);
  secret.fill(0);
  return bytes;
}

function decode(bytes: Buffer): Credential {
  const length = bytes.readUInt16BE();
  return {
    accessKeyId: bytes.toString('utf8', 2, 2 + length),
    secretAccessKey: bytes.toString('utf8', 2 + length),
  };
}

function sameHex(text: string, expected: Buffer): boolean {
  const bytes = Buffer.from(text, 'hex');
  // A text that decodes to the same bytes but is spelt otherwise was not written by us.
  return (
    bytes.length === expected.length && timingSafeEqual(bytes, expected) && text === expected.toString('hex')
  );
}
