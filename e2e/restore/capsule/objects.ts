/** What exists already where a Capsule is to be restored; it is never overwritten. */
import type { Kube } from '../../space/kube.ts';
import type { KubeObject } from '../../space/kube-object.ts';
import { RESTORING } from '../marks.ts';
import { RestoreProblem } from '../problem.ts';
import type { Tenant } from './tenant.ts';

/** The namespace of Capsules, and the one in which the operator keeps their principals. */
export interface Namespaces {
  readonly release: string;
  readonly system: string;
  readonly services: string;
}

const CAPSULE = 'platform.space/capsule';
const UNCHANGED = 'Nothing was changed';

/** Returns whether this same restore was begun before. @throws RestoreProblem if the name is taken */
export async function refuseTaken(
  kube: Kube,
  { release, system }: Namespaces,
  to: string,
  mark: string,
): Promise<boolean> {
  const living = await kube.get('capsule', to, release);
  if (living === undefined) {
    for (const name of [`capsule-${to}-database`, `capsule-${to}-objectstore`])
      if ((await kube.get('secret', name, system)) !== undefined)
        throw new RestoreProblem(
          `the data of an earlier Capsule ${to} is retained (Secret ${system}/${name}): restore under another name, with --as OTHER, or drop that data by creating a Capsule ${to} with deletionPolicy: Drop and deleting it. ${UNCHANGED}`,
        );
    return false;
  }
  const { annotations = {}, deletionTimestamp } = living.metadata;
  if (deletionTimestamp !== undefined)
    throw new RestoreProblem(
      `Capsule ${to} is in deletion: wait until it is deleted, or undo the deletion with npm run undelete -- capsule ${to}. ${UNCHANGED}`,
    );
  const begun = annotations[RESTORING];
  if (begun === mark) return true;
  throw new RestoreProblem(
    begun === undefined
      ? `Capsule ${to} exists, and a restore does not overwrite it: restore under another name, with --as OTHER, or delete it first. ${UNCHANGED}`
      : `another restore of Capsule ${to} was interrupted (${begun}): run that one again, or delete the Capsule and start over. ${UNCHANGED}`,
  );
}

/** All Assistants of a Space share one namespace, and so do stored inputs. */
export async function refuseOccupied(
  kube: Kube,
  { release }: Namespaces,
  { assistants, inputs }: Tenant,
  isBegun: boolean,
): Promise<void> {
  for (const { metadata, spec } of assistants) {
    const found = await kube.get('assistant', metadata.name, release);
    if (found !== undefined && !(isBegun && found.spec.capsule === spec.capsule))
      throw new RestoreProblem(
        `Assistant ${metadata.name} exists already, in Capsule ${found.spec.capsule}: delete it, or restore under another name, with --as OTHER. ${UNCHANGED}`,
      );
  }
  for (const { metadata } of inputs) {
    const found = await kube.get('secret', metadata.name, release);
    if (found !== undefined && !isSameInput(found, metadata))
      throw new RestoreProblem(
        `Secret ${metadata.name} exists already, and is no stored input of Capsule ${metadata.labels?.[CAPSULE]}: delete it, or restore under another name, with --as OTHER. ${UNCHANGED}`,
      );
  }
}

const isSameInput = (found: KubeObject, { labels }: KubeObject['metadata']) =>
  found['type'] === 'platform.space/stored-input' && found.metadata.labels?.[CAPSULE] === labels?.[CAPSULE];

/** Creates the objects so that nothing starts. Stored inputs that were entered since then stay as they are. */
export async function applyTenant(
  kube: Kube,
  { capsule, assistants, inputs }: Tenant,
  mark: string,
): Promise<void> {
  for (const input of inputs) {
    const { name, namespace } = input.metadata;
    if ((await kube.get('secret', name, namespace)) === undefined) await kube.apply(input);
  }
  const { metadata } = capsule;
  await kube.apply({
    ...capsule,
    metadata: { ...metadata, annotations: { ...metadata.annotations, [RESTORING]: mark } },
  });
  if (assistants.length > 0) await kube.apply(...assistants);
}

/** Lets the Capsule start, unless it was suspended. */
export async function letStart(kube: Kube, { capsule, assistants }: Tenant): Promise<void> {
  const patch = async ({ kind, metadata: { name, namespace = '' } }: KubeObject, change: object) => {
    const of = [kind.toLowerCase(), name, '-n', namespace, '--type=merge', '-p', JSON.stringify(change)];
    const { code, stderr } = await kube.run(['patch', ...of]);
    if (code !== 0) throw new RestoreProblem(`${kind} ${name} cannot be changed: ${stderr.trim()}`);
  };
  const suspension = ({ spec }: KubeObject) => (spec.suspend === true ? { spec: { suspend: true } } : {});
  for (const one of assistants) if (one['spec'].suspend === true) await patch(one, suspension(one));
  await patch(capsule, { metadata: { annotations: { [RESTORING]: null } }, ...suspension(capsule) });
}
