import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { createKube, type Finished, type Kube } from '../../space/kube.ts';
import { installed, kube, unique } from './space.ts';

/** A person or a program as the API server knows it, with the rights that RBAC gives it. */
export interface Person {
  readonly name: string;
  /** The folder of the kubeconfig of `bearer`, which contains the token; `forget` removes it. */
  readonly folder?: string;
  /** `kubectl` as this person. */
  run(args: readonly string[], input?: string): Promise<Finished>;
  create(object: object): Promise<Finished>;
  apply(...objects: object[]): Promise<Finished>;
}

type Rule = object;

/**
 * Creates a person with a Role of these rules in the Space's namespace, or bound to a ClusterRole there or in the
 * whole cluster.
 */
export async function person(
  of: string,
  rights: { readonly rules?: readonly Rule[]; readonly role?: string; readonly everywhere?: string },
): Promise<Person> {
  const name = unique(of);
  const apiGroup = 'rbac.authorization.k8s.io';
  const rbac = { apiVersion: `${apiGroup}/v1`, metadata: { name, namespace: installed.namespace } };
  const subjects = [{ kind: 'User', apiGroup, name }];
  const binding = (kind: string, role: string) => ({ roleRef: { apiGroup, kind, name: role }, subjects });
  if (rights.rules)
    await kube.apply(
      { ...rbac, kind: 'Role', rules: rights.rules },
      { ...rbac, kind: 'RoleBinding', ...binding('Role', name) },
    );
  if (rights.role) await kube.apply({ ...rbac, kind: 'RoleBinding', ...binding('ClusterRole', rights.role) });
  if (rights.everywhere)
    await kube.apply({
      ...rbac,
      metadata: { name },
      kind: 'ClusterRoleBinding',
      ...binding('ClusterRole', rights.everywhere),
    });
  return runsAs(name, kube, ['--as', name, '--as-group', 'system:authenticated']);
}

/** Acts as the owner of a token, without the certificate that `kubectl` would prefer. */
export async function bearer(name: string, token: string): Promise<Person> {
  const config = parse(await readFile(installed.kubeconfig, 'utf8'));
  const folder = await mkdtemp(join(tmpdir(), 'space-bearer-'));
  const file = join(folder, 'kubeconfig');
  const users = config.users.map((user: object) => ({ ...user, user: { token } }));
  await writeFile(file, JSON.stringify({ ...config, users }), { mode: 0o600 });
  return { ...runsAs(name, createKube(installed.kubectl, file)), folder };
}

function runsAs(name: string, by: Kube, flags: readonly string[] = []): Person {
  const run: Person['run'] = (args, input) => by.run([...flags, ...args], input);
  return {
    name,
    run,
    create: (object) => run(['create', '-f', '-'], JSON.stringify(object)),
    apply: (...objects) =>
      run(
        ['apply', '--server-side', '--force-conflicts', '-f', '-'],
        objects.map((object) => JSON.stringify(object)).join('\n---\n'),
      ),
  };
}

/** Removes what `person` and `bearer` created. */
export async function removePeople(...people: readonly Person[]): Promise<void> {
  for (const { name, folder } of people) {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    await kube.run(['delete', 'role,rolebinding', name, '-n', installed.namespace, '--ignore-not-found']);
    await kube.run(['delete', 'clusterrolebinding', name, '--ignore-not-found']);
  }
}
