/** Replaces `kubectl exec`: programs that a restore runs in pods run in the unpacked image. */
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Kubectl } from '../../../e2e/restore/capsule/load.ts';
import type { Place } from '../../../e2e/restore/place.ts';
import { finish } from '../../../e2e/space/kube.ts';

export interface StandIn {
  readonly kubectl: Kubectl;
  readonly places: Readonly<Record<'server' | 'scratch' | 'loader', Place>>;
}

/** The directories that each pod has for itself. */
const OWN = ['run/postgresql', 'tmp', 'var/lib/postgresql/data'];

export async function standIn(
  directory: string,
  root: string,
  user: number,
  environment: Readonly<Record<string, string>>,
): Promise<StandIn> {
  const scratch = join(directory, 'scratch');
  for (const path of OWN) {
    await mkdir(join(scratch, path), { recursive: true });
    await chown(join(scratch, path), user, user);
  }
  const own = OWN.map((path) => `mount --bind "$scratch/${path}" "$root/${path}"`).join(' && ');
  const program = join(directory, 'kubectl');
  const exports = Object.entries(environment).map(([name, value]) => `export ${name}='${value}'`);
  await writeFile(
    program,
    `#!/bin/sh
${exports.join('\n')}
export root='${root}' scratch='${scratch}' pod=
while [ "$1" != -- ]; do
  case $1 in -n | -c) shift ;; exec | -i) ;; *) pod=$1 ;; esac
  shift
done
shift
exec unshare --mount -- /bin/sh -c '
  mount --bind /dev "$root/dev" && mount -t proc proc "$root/proc" || exit 1
  if [ "$pod" = scratch ]; then ${own} || exit 1; fi
  exec chroot --userspec=${user}:${user} "$root" "$@"' sh "$@"
`,
  );
  await chmod(program, 0o755);
  const kube = { run: (args: readonly string[], input?: string) => finish(program, args, input) };
  const place = (pod: string): Place => ({ kube, namespace: 'home-services', pod, container: 'postgres' });
  return {
    kubectl: [program],
    places: { server: place('postgres-0'), scratch: place('scratch'), loader: place('loader') },
  };
}
