import { Agent, request } from 'undici';

interface Table {
  readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[];
  readonly rows: readonly { readonly cells: readonly unknown[] }[];
}

/** What `kubectl get` prints of a collection, or with `-o wide`: cells under the names of their columns. */
export async function tableOf(
  kubeconfig: string,
  path: string,
  wide = false,
): Promise<Record<string, unknown>[]> {
  const { clusters, users } = JSON.parse(kubeconfig) as {
    readonly clusters: readonly { readonly cluster: { readonly server: string } }[];
    readonly users: readonly { readonly user: { readonly token: string } }[];
  };
  const { body } = await request(`${clusters[0]?.cluster.server}${path}`, {
    // A server of these tests' own, on loopback.
    dispatcher: new Agent({ connect: { rejectUnauthorized: false } }),
    headers: {
      authorization: `Bearer ${users[0]?.user.token}`,
      accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
    },
  });
  const { columnDefinitions, rows } = (await body.json()) as Table;
  return rows.map(({ cells }) =>
    Object.fromEntries(
      columnDefinitions.flatMap(({ name, priority }, at) =>
        wide || priority === 0 ? [[name, cells[at]]] : [],
      ),
    ),
  );
}
