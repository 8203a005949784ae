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

/** The two secret values of a set. Only the signer of a request uses them. */
export interface Credential {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

type Owner = Pick<Inventory, 'capsule' | 'incarnation'>;

const PURPOSE = 'objectstore.credential';

/** Seals, opens and checks the data of one Space with the present keyring. */
export interface Seals {
  readonly primary: string;
  fingerprint(accessKeyId: string): string;
  sealSet(owner: Owner, set: CredentialSet, credential: Credential): Promise<SealedSet>;
  /** @throws EnvelopeError unless the envelope was sealed for exactly this set */
  openSet(owner: Owner, set: SealedSet): Promise<Credential>;
  /** Seals the set with the primary key, after applying `change`. */
  resealSet(owner: Owner, set: SealedSet, change?: Partial<CredentialSet>): Promise<SealedSet>;
  sealInventory(inventory: Inventory): StoredInventory;
  /** Why this Space cannot have written the stored inventory; undefined if it has. Decrypts nothing. */
  problemOf(stored: StoredInventory): string | undefined;
  /** In lower-case hex; undefined if the keyring lacks the key. */
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
    // Neither generation nor set is part of it, so that a person can see that two sets have the same key.
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

/** Only the fields of a set, whatever else the object has. */
function factsOf(set: CredentialSet): CredentialSet {
  const { setId, name, formVersion, generation, endpoint, region, bucket, addressing } = set;
  const { fingerprint, verifiedAt, createdAt, rotatedAt } = set;
  const routing = { endpoint, region, bucket, addressing };
  return { setId, name, formVersion, generation, ...routing, fingerprint, verifiedAt, createdAt, rotatedAt };
}

/** Both values with the length of the first, so that nothing has to be escaped or parsed. */
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
  // Another text that decodes to the same bytes was not written by this code.
  return (
    bytes.length === expected.length && timingSafeEqual(bytes, expected) && text === expected.toString('hex')
  );
}
