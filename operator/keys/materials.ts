import { createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { bech32 } from '@scure/base';
import { grantKeyId } from '@space/manifests';

/** The namespace of a Secret: the operator's, or that of the services. */
export type Location = 'system' | 'services';

export type Fields = Readonly<Record<string, string>>;

/** One value of a Secret: how it is generated and what it looks like. */
interface Field {
  make(): string;
  isValid(text: string): boolean;
  /** The expected format, for a person who has to write the value. */
  readonly shape: string;
}

/** A Secret that is created once and never changed, since something is encrypted or was handed out with it. */
export interface Material {
  readonly name: string;
  /**
   * Its name in `existingSecrets` of the chart. A Secret that is set there belongs to somebody else, and is never read.
   */
  readonly value: string;
  /** Where the Secret is created first; the other locations get a copy. */
  readonly places: readonly Location[];
  readonly fields: Readonly<Record<string, Field>>;
  /** Fields that are derived from the others, and updated with them. */
  derive?(fields: Fields): Fields;
  /** What is lost with the Secret, for a person who has lost it; absent if another can simply be created. */
  readonly loss?: string;
}

const random = () => randomBytes(32).toString('base64url');
const matches = (pattern: RegExp, shape: string, make: () => string): Field => ({
  make,
  isValid: (text) => pattern.test(text),
  shape,
});

const RANDOM = '[A-Za-z0-9_-]{43}';
const word = (make = random) => matches(/^[A-Za-z0-9_-]{1,256}$/, 'letters, digits, _ and -', make);
const key = matches(new RegExp(`^${RANDOM}$`), '32 random bytes as 43 characters of base64url', random);
/** There are several during an exchange; the first one is for new data. */
const keys = matches(new RegExp(`^${RANDOM}(\\n${RANDOM})*\\n?$`), `${key.shape}, one or more lines`, random);
const tokenFor = (audience: 'prv' | 'obs') =>
  matches(
    new RegExp(`^spc_${audience}_${RANDOM}(\\n(spc_${audience}_${RANDOM})?){0,2}$`),
    `spc_${audience}_ and 43 characters of base64url, one or two lines`,
    () => `spc_${audience}_${random()}`,
  );
const identity = matches(/^AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}$/, 'an age identity, AGE-SECRET-KEY-1…', () =>
  bech32.encodeFromBytes('AGE-SECRET-KEY-', randomBytes(32)).toUpperCase(),
);
const keyring: Field = {
  make: () => JSON.stringify({ primary: 'k1', keys: { k1: random() } }),
  isValid: isKeyring,
  shape: '{"primary":"k1","keys":{"k1":"<43 characters of base64url>"}}',
};
const grantKey: Field = {
  make: () => generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  isValid: (text) => publicGrantKey(text) !== undefined,
  shape: 'an Ed25519 private key in PEM',
};

function isKeyring(text: string): boolean {
  try {
    const { primary, keys: all } = JSON.parse(text) as { primary: string; keys: Record<string, string> };
    return Object.hasOwn(all, primary) && Object.values(all).every((one) => key.isValid(one));
  } catch {
    return false;
  }
}

function publicGrantKey(pem: string): { kty: string; crv: string; x: string; kid: string } | undefined {
  try {
    const { crv, x } = createPublicKey(createPrivateKey(pem)).export({ format: 'jwk' });
    return crv === 'Ed25519' && x !== undefined ? { kty: 'OKP', crv, x, kid: grantKeyId(x) } : undefined;
  } catch {
    return undefined;
  }
}

export interface SpaceOptions {
  readonly servicesNamespace: string;
  readonly tls: boolean;
  readonly objectStore: boolean;
  readonly byok: boolean;
  readonly console: boolean;
  readonly backup: boolean;
}

/** All Secrets of a Space that are created once, in the order of their creation. */
export function materialsOf(options: SpaceOptions): readonly Material[] {
  const { objectStore, byok, console, backup } = options;
  const url = urlIn(options);
  return [
    ...always(url),
    ...(objectStore ? ofObjectStore(url) : []),
    ...(objectStore && byok ? [GRANTS] : []),
    ...(console ? [SESSIONS, OBSERVER] : []),
    ...(backup ? [BACKUPS] : []),
  ];
}

/** Returns a function that derives the URL of a role's database from the Secret's password. */
type UrlOf = (role: string, database: string) => NonNullable<Material['derive']>;

function urlIn({ servicesNamespace, tls }: SpaceOptions): UrlOf {
  const sslmode = tls ? 'verify-full&sslrootcert=/etc/space/ca/ca.crt' : 'disable';
  return (role, database) => (fields) => ({
    url: `postgresql://${role}:${fields['password']}@postgres.${servicesNamespace}.svc:5432/${database}?sslmode=${sslmode}`,
  });
}

const provisioner = (service: string, value: string): Material => ({
  name: `${service}-provisioner`,
  value,
  places: ['services', 'system'],
  fields: { token: tokenFor('prv') },
  loss: 'the operator can create and drop nothing until it and the broker have the same one',
});

const always = (url: UrlOf): readonly Material[] => [
  {
    name: 'db-admin',
    value: 'dbAdmin',
    places: ['services'],
    fields: { password: word() },
    derive: url('space_broker', 'space_registry'),
    loss: 'the database broker cannot open its server until postgres was restarted with another',
  },
  {
    name: 'db-broker-keys',
    value: 'dbBrokerKeys',
    places: ['services'],
    fields: { derivation: keys, names: key },
    loss: 'no URL that was issued can be issued again',
  },
  provisioner('db', 'dbProvisioner'),
  provisioner('egress', 'egressProvisioner'),
  {
    name: 'egress-keys',
    value: 'egressKeys',
    places: ['services'],
    fields: { custody: keyring },
    loss: 'every stored input has to be entered again',
  },
];

const ofObjectStore = (url: UrlOf): readonly Material[] => [
  {
    name: 'objectstore-registry',
    value: 'objectStoreRegistry',
    places: ['services'],
    fields: { password: word() },
    derive: url('space_objectstore', 'space_objectstore'),
    loss: 'the object-storage broker cannot open its registry until postgres was restarted with another',
  },
  {
    name: 'objectstore-keys',
    value: 'objectStoreKeys',
    places: ['services'],
    fields: { names: key, keyring },
    loss: 'no file can be found again, and credentials of Capsules cannot be decrypted',
  },
  provisioner('objectstore', 'objectStoreProvisioner'),
  {
    name: 's3-root',
    value: 's3Root',
    places: ['services'],
    fields: {
      'access-key': word(() => `SPACE${randomBytes(8).toString('hex').toUpperCase().slice(0, 15)}`),
      'secret-key': matches(/^[\x21-\x7e]{8,256}$/, 'at least 8 characters', random),
    },
    loss: 'the object-storage broker cannot open its server until both were restarted with another',
  },
];

const GRANTS: Material = {
  name: 'objectstore-grants',
  value: 'objectStoreGrants',
  places: ['system'],
  fields: { key: grantKey },
  loss: 'no Assistant can access objects in a bucket of its Capsule until the broker knows another one',
};

/** Deleting this Secret ends every session. */
const SESSIONS: Material = {
  name: 'console-session',
  value: 'consoleSession',
  places: ['system'],
  fields: { keys },
};

/** Its owner can see what Assistants called, and can change nothing. */
const OBSERVER: Material = {
  name: 'egress-observer',
  value: 'egressObserver',
  places: ['services', 'system'],
  fields: { token: tokenFor('obs') },
};

const BACKUPS: Material = {
  name: 'backup-keys',
  value: 'backupKeys',
  places: ['services'],
  fields: { postgres: key, bucket: identity },
  loss: 'no existing backup can be read',
};

/**
 * The keys that grants are verified with, including the public half of the signing key. Others stay beside it during an
 * exchange.
 */
export function verifyingKeys(signingKey: string, present: string | undefined): string {
  const own = publicGrantKey(signingKey);
  if (own === undefined) throw new Error('the key of grants is not an Ed25519 key');
  const alone = JSON.stringify({ keys: [own] });
  if (present === undefined) return alone;
  try {
    const { keys: known } = JSON.parse(present) as { keys: readonly { kid?: string }[] };
    return known.some(({ kid }) => kid === own.kid) ? present : alone;
  } catch {
    return alone;
  }
}
