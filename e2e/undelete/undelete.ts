/**
 * Brings back an object in deletion while its data is kept (`retention.grace`): retains the data, lets the deletion
 * end, creates the object again.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';

export type Kind = 'Capsule' | 'Assistant';

export interface Undelete {
  readonly kube: Pick<Kube, 'run' | 'get' | 'list' | 'tryApply'>;
  /** The namespace of Capsules and Assistants. */
  readonly namespace: string;
  readonly kind: Kind;
  readonly name: string;
  /** The file that records what has to be created again, from before anything is changed until all of it exists. */
  readonly file: string;
  readonly note: (text: string) => void;
  readonly signal: AbortSignal;
  readonly pollMs?: number;
}

/** Why nothing, or not everything, can be brought back, and what to do. */
class UndeleteError extends Error {
  override readonly name = 'UndeleteError';
}

/** Returns what was created again. The next run continues one that was interrupted at any point. */
export async function undelete(about: Undelete): Promise<readonly string[]> {
  const { kube, namespace, kind, name, file, note, signal, pollMs = 1_000 } = about;
  const look = () => kube.get(kind, name, namespace);
  const found = await look();
  const saved = (await read(file)) ?? (await save(about, found));
  const [first] = saved;
  if (found?.metadata.deletionTimestamp !== undefined && found.metadata.uid !== first?.uid)
    throw new UndeleteError(
      `${file} is of an earlier deletion of ${kind} ${name}: move the file away, and run the command again.`,
    );
  const isThere = async ({ uid, object }: Saved) =>
    (await kube.get(object.kind, object.metadata.name, namespace))?.metadata.uid === uid;
  if (first !== undefined && (await isThere(first))) await keep(about);
  const made: string[] = [];
  let dropped = false;
  for (const one of saved) {
    const { object, uid } = one;
    const title = `${object.kind} ${object.metadata.name}`;
    note(`waiting until ${title} is deleted and its data retained`);
    while (await isThere(one)) await wait(pollMs, undefined, { signal });
    dropped ||= await tellsDrop(about, uid);
    // If somebody has created it again, or deleted what was created again, it is left as it is.
    if ((await kube.get(object.kind, object.metadata.name, namespace)) !== undefined) continue;
    const { code, stderr } = await kube.tryApply(object);
    if (code !== 0)
      throw new UndeleteError(
        `${title} could not be created again: ${stderr.trim()}. Repair the cause, then run the command again; ${file} lists what is left to create.`,
      );
    made.push(title);
  }
  await rm(file, { force: true });
  if (dropped)
    throw new UndeleteError(
      `${kind} ${name} exists again, but not all of its data: some of it had been dropped before the request to retain it. Restore that from a backup.`,
    );
  return made;
}

/** The object that has to be created again in place of the one with that UID. */
interface Saved {
  readonly uid: string;
  readonly object: KubeObject;
}

async function read(file: string): Promise<readonly Saved[] | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new UndeleteError(`${file} cannot be read: repair it, or move it away.`, { cause: error });
  }
}

/** Records what has to be created again, a Capsule before its Assistants. */
async function save(
  { kube, namespace, kind, name, file }: Undelete,
  found: KubeObject | undefined,
): Promise<readonly Saved[]> {
  if (found === undefined)
    throw new UndeleteError(
      `There is no ${kind} ${name} in ${namespace}, in deletion or otherwise. If its deletionPolicy was Retain, apply it again to use its data; otherwise restore it from a backup.`,
    );
  if (found.metadata.deletionTimestamp === undefined)
    throw new UndeleteError(`${kind} ${name} is not in deletion, so there is nothing to undo.`);
  const inside =
    kind === 'Capsule'
      ? (await kube.list('Assistant', namespace)).filter(({ spec }) => spec.capsule === name)
      : [];
  const saved = [found, ...inside].map((one) => ({ uid: one.metadata.uid ?? '', object: asApplied(one) }));
  await writeFile(`${file}.new`, `${JSON.stringify(saved, null, 2)}\n`, { mode: 0o600, flush: true });
  await rename(`${file}.new`, file);
  return saved;
}

/** Annotations with names of people, which only the API server or these people themselves may write. */
const PERSONS = ['platform.space/installed-by', 'platform.space/approved-by', 'platform.space/record'];

/** An object as a person would apply it, without what the cluster wrote into it. */
export function asApplied({ apiVersion, kind, metadata, spec }: KubeObject): KubeObject {
  const { name, namespace, labels } = metadata;
  const annotations = Object.fromEntries(
    Object.entries(metadata.annotations ?? {}).filter(([key]) => !PERSONS.includes(key)),
  );
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(labels === undefined ? {} : { labels }),
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec,
  };
}

/** The operator reads this policy right before it drops anything. */
async function keep({ kube, namespace, kind, name }: Undelete): Promise<void> {
  const patch = JSON.stringify({ spec: { deletionPolicy: 'Retain' } });
  const { code, stderr } = await kube.run([
    'patch',
    kind.toLowerCase(),
    name,
    '-n',
    namespace,
    '--type=merge',
    '-p',
    patch,
  ]);
  if (code !== 0 && !stderr.includes('NotFound'))
    throw new UndeleteError(
      `the deletionPolicy of ${kind} ${name} could not be set to Retain: ${stderr.trim()}`,
    );
}

/** Whether the operator's Events report that the data was dropped. */
async function tellsDrop({ kube, namespace }: Undelete, uid: string): Promise<boolean> {
  const events = await kube.list('Event', namespace);
  return events.some(
    ({ involvedObject, reason, message }) =>
      involvedObject?.uid === uid &&
      (reason === 'DatabaseDropped' || (reason === 'CapsuleFinalized' && /Nothing/.test(String(message)))),
  );
}
