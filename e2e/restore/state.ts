/** A Space's state as operator/backup seals it: a header line, then one object a line. */
import { Decrypter } from 'age-encryption';
import type { KubeObject } from '../space/kube-object.ts';
import { RestoreProblem } from './problem.ts';

/** What the programs of one version of the chart know. */
export interface Known {
  readonly version: string;
  /** Versions of the brokers' registries. */
  readonly schemas: Readonly<Record<string, number>>;
}

export interface State {
  readonly space: string;
  readonly namespaces: { readonly release: string; readonly system: string; readonly services: string };
  readonly taken: string;
  /** Hosts of PostgreSQL servers by their names; a state of an older version does not contain them. */
  readonly databaseHosts?: Readonly<Record<string, string>>;
  readonly objects: readonly KubeObject[];
}

/**
 * @throws RestoreProblem for other identities, and for data that is no state of a Space, is truncated, or is of a
 * newer version
 */
export async function openState(
  sealed: Uint8Array,
  identities: readonly string[],
  known: Known,
): Promise<State> {
  const decrypter = new Decrypter();
  try {
    if (identities.length === 0) throw new Error('there is no identity');
    for (const identity of identities) decrypter.addIdentity(identity);
  } catch (cause) {
    throw new RestoreProblem(
      '--identity: the file has no valid AGE-SECRET-KEY-1…: give the file that age-keygen wrote',
      {
        cause,
      },
    );
  }
  let text: string;
  try {
    text = await decrypter.decrypt(sealed, 'text');
  } catch (cause) {
    throw new RestoreProblem(
      'the state cannot be decrypted: it was encrypted for another recipient than that of the identity in this file, or it was truncated or changed',
      { cause },
    );
  }
  const [head = '', ...lines] = text.split('\n').filter((line) => line !== '');
  const { format, version, schemas, objects: count, ...header } = headerIn(head);
  if (format !== 1)
    throw new RestoreProblem(
      `the state has format ${format}, which a newer version of Space wrote: restore with that version. Nothing was changed`,
    );
  refuseNewer({ version, schemas }, known);
  const objects = lines.map((line) => JSON.parse(line) as KubeObject);
  if (objects.length !== count)
    throw new RestoreProblem(
      `the state has ${objects.length} objects, but its header says ${count}: choose another state, with --at`,
    );
  return { ...header, objects };
}

function headerIn(line: string) {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new RestoreProblem(
      'the file of the state does not contain a state: check backup.s3.prefix. Nothing was changed',
      { cause },
    );
  }
}

/**
 * An older broker refuses a registry that a newer one wrote, and an older operator loses fields that a newer one
 * wrote.
 */
function refuseNewer({ version = '0', schemas = {} }: Partial<Known>, known: Known): void {
  const newer = Object.entries(schemas).filter(([of, number]) => number > (known.schemas[of] ?? 0));
  if (newer.length > 0 || isNewer(version, known.version))
    throw new RestoreProblem(
      `the backup was made by version ${version} of Space${newer.map(([of, number]) => `, with the registry of ${of} in version ${number}`).join('')}, and this version is ${known.version}: restore with that version, or a later one. Nothing was changed`,
    );
}

/** Compares the numbers of both; a build between two versions has the number of the later one. */
function isNewer(version: string, known: string): boolean {
  const numbersIn = (text: string) => (text.split(/[-+]/)[0] ?? '').split('.').map(Number);
  const mine = numbersIn(known);
  const first = numbersIn(version)
    .map((number, at) => number - (mine[at] ?? 0))
    .find((apart) => apart !== 0);
  return first !== undefined && !(first < 0);
}

const nameOf = ({ kind, metadata }: KubeObject) => `${kind} ${metadata.namespace}/${metadata.name}`;

/**
 * What a Space has to contain at some moment: people's objects as they were then, and keys as they are now. A key
 * that was added later reads what was written later, and one that was removed is still in the older state.
 */
export function merge(then: State, newest: State): readonly KubeObject[] {
  const isKey = ({ metadata }: KubeObject) => metadata.namespace !== newest.namespaces.release;
  const merged = new Map<string, KubeObject>();
  for (const object of [...then.objects.filter(isKey), ...newest.objects.filter(isKey)])
    merged.set(nameOf(object), object);
  return [...merged.values(), ...then.objects.filter((object) => !isKey(object))];
}

/** Names of the Capsules that existed. */
export const capsulesIn = ({ namespaces, objects }: State): readonly string[] =>
  objects
    .filter(({ kind, metadata }) => kind === 'Capsule' && metadata.namespace === namespaces.release)
    .map(({ metadata }) => metadata.name);

/** Those that were provisioned at the database broker; a Capsule that waits for that has a principal, and neither URL nor limits. */
export function provisionedIn(state: State): readonly string[] {
  const { namespaces, objects } = state;
  const waiting = objects.filter(
    ({ kind, metadata, data = {} }) =>
      kind === 'Secret' &&
      metadata.namespace === namespaces.system &&
      data['principal'] !== undefined &&
      data['database-url'] === undefined &&
      metadata.annotations?.['platform.space/database-limits'] === undefined,
  );
  const names = new Set(waiting.map(({ metadata }) => metadata.name));
  return capsulesIn(state).filter((capsule) => !names.has(`capsule-${capsule}-database`));
}
