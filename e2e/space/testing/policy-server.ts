import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { type ApiServer, startApiServer } from '../../../testing/api-server.ts';
import { eventually } from '../../../testing/eventually.ts';
import { findTool } from '../../cluster/tools.ts';
import { CHART, SOME_IMAGES, someImage } from '../chart.ts';
import { finish } from '../kube.ts';
import type { KubeObject } from '../kube-object.ts';

export const ATTESTER = someImage('attester');

/** Kinds that decide about rights and priorities; the rest of the chart needs a cluster. */
const COLLECTIONS: Readonly<Record<string, string>> = {
  CustomResourceDefinition: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  ConfigMap: '/api/v1/namespaces/NAMESPACE/configmaps',
  ServiceAccount: '/api/v1/namespaces/NAMESPACE/serviceaccounts',
  ClusterRole: '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  Role: '/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/roles',
  RoleBinding: '/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/rolebindings',
  FlowSchema: '/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas',
  ValidatingAdmissionPolicy: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
  MutatingAdmissionPolicy: '/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies',
  MutatingAdmissionPolicyBinding: '/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings',
};

interface Verdict {
  readonly status: number;
  readonly text: string;
}

/** Sends a request as one account. Nothing is changed: the API server decides, and stores nothing. */
export type Caller = (method: string, path: string, body?: object) => Promise<Verdict>;

/**
 * A real API server with the roles and policies of a release `home`, or of several, which decides who may do what.
 */
export interface PolicyServer {
  readonly server: ApiServer;
  create(path: string, body: object): Promise<unknown>;
  /**
   * A ServiceAccount in the namespace `home`; `rules` are granted there, or in the namespaces that `places` names.
   */
  caller(name: string, rules?: readonly object[], places?: readonly string[]): Promise<Caller>;
  /** May do everything that is not forbidden to all. */
  administrator(): Promise<Caller>;
  /** A controller of the cluster's own, which has a ServiceAccount and the rights that every cluster gives it. */
  controller(name: string): Promise<Caller>;
  /** A user whom the cluster knows by this name. */
  user(name: string): Caller;
  stop(): Promise<void>;
}

export const named = (name: string, labels: object = {}, annotations: object = {}) => ({
  metadata: { name, labels, annotations },
});

/**
 * `served` are kinds for which the chart renders something only if the API server has them; `values` are the chart's, as
 * `NAME=VALUE`.
 */
export async function startPolicyServer(
  spaces: readonly string[] = ['home'],
  served: readonly string[] = [],
  values: readonly string[] = [],
): Promise<PolicyServer> {
  const directory = await mkdtemp(join(tmpdir(), 'space-policies-'));
  const helm = await findTool('helm', directory);
  const server = await startApiServer();
  const create = (path: string, body: object) => server.client.call({ method: 'POST', path, body });
  const stop = async () => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  };
  /** The definitions belong to no release, so the first one creates them. */
  async function install(space: string, first: boolean): Promise<void> {
    for (const name of [space, `${space}-system`, `${space}-services`])
      await create('/api/v1/namespaces', named(name, { 'platform.space/space': space }));
    const args = ['template', space, CHART, '--namespace', space, '--no-hooks', ...SOME_IMAGES];
    const set = [
      ...served.flatMap((kind) => ['--api-versions', kind]),
      ...[`sandbox.attester.image=${ATTESTER}`, ...values].flatMap((value) => ['--set', value]),
      ...(first ? ['--include-crds'] : []),
    ];
    const { stdout, stderr } = await finish(helm, [...args, ...set]);
    if (stdout === '') throw new Error(stderr);
    for (const document of parseAllDocuments(stdout)) {
      const object = document.toJS() as KubeObject | null;
      const path = object === null ? undefined : COLLECTIONS[object.kind];
      if (object === null || path === undefined) continue;
      await create(path.replace('NAMESPACE', object.metadata.namespace ?? space), object);
    }
  }
  try {
    await create('/apis/node.k8s.io/v1/runtimeclasses', { ...named('gvisor'), handler: 'runsc' });
    for (const space of spaces) await install(space, space === spaces[0]);
    // Kinds are served a moment after their definitions were created.
    for (const kind of ['capsules', 'assistants'])
      await eventually(
        () => server.client.call({ method: 'GET', path: `/apis/platform.space/v1/${kind}` }).then(() => true),
        { what: `${kind} to be served` },
      );
  } catch (error) {
    await stop();
    throw error;
  }

  async function caller(
    name: string,
    rules: readonly object[] = [],
    places: readonly string[] = ['home'],
  ): Promise<Caller> {
    await create('/api/v1/namespaces/home/serviceaccounts', named(name));
    for (const place of rules.length > 0 ? places : []) {
      const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${place}`;
      await create(`${rbac}/roles`, { ...named(name), rules });
      await create(`${rbac}/rolebindings`, { ...named(name), ...bound('Role', name, name) });
    }
    return asAccount(server, name);
  }

  return {
    server,
    create,
    caller,
    async administrator() {
      const ask = await caller('administrator');
      await create('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
        ...named('administrator'),
        ...bound('ClusterRole', 'cluster-admin', 'administrator'),
      });
      return ask;
    },
    async controller(name) {
      await create('/api/v1/namespaces/kube-system/serviceaccounts', named(name));
      return asAccount(server, name, { namespace: 'kube-system' });
    },
    user(name) {
      const { users } = JSON.parse(server.kubeconfig) as { users: readonly { user: { token: string } }[] };
      const token = users[0]?.user.token ?? '';
      return (method, path, body) =>
        answerTo(server, token, method, path, body, { 'impersonate-user': name });
    },
    stop,
  };
}

const bound = (kind: string, role: string, account: string) => ({
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: role },
  subjects: [{ kind: 'ServiceAccount', name: account, namespace: 'home' }],
});

/** The operator of a release, as the process in this pod, which may hold the Lease. */
export async function asOperator(
  { create, server }: PolicyServer,
  pod = 'operator',
  space = 'home',
): Promise<Caller> {
  const made = await create(`/api/v1/namespaces/${space}-system/pods`, {
    ...named(pod),
    spec: { serviceAccountName: `${space}-operator`, containers: [{ name: 'operator', image: 'x' }] },
  });
  const { uid } = (made as KubeObject).metadata;
  const bound = { kind: 'Pod', apiVersion: 'v1', name: pod, uid };
  return asAccount(server, `${space}-operator`, { namespace: `${space}-system`, pod: bound });
}

/** Writes the Lease as the process of this pod would. */
export async function holdLease({ server }: PolicyServer, pod: string, space = 'home'): Promise<void> {
  const { client } = server;
  const { metadata } = await client.call<KubeObject>({
    method: 'GET',
    path: `/api/v1/namespaces/${space}-system/pods/${pod}`,
  });
  await client.call({
    method: 'PATCH',
    path: `/apis/coordination.k8s.io/v1/namespaces/${space}-system/leases/${space}-operator`,
    query: { fieldManager: 'test', force: 'true' },
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: `${space}-operator` },
      spec: { holderIdentity: `${pod}_${metadata.uid}_1`, leaseDurationSeconds: 15 },
    },
  });
}

/** The UID of the priority level in which the operator's request waits. */
export async function priorityLevelOf({ server }: PolicyServer, path: string): Promise<string> {
  const token = await tokenOf(server, 'home-operator', { namespace: 'home-system' });
  const { headers } = await ask(server, token, 'GET', path);
  return String(headers['x-kubernetes-pf-prioritylevel-uid']);
}

interface Bearer {
  readonly namespace?: string;
  /** The pod that the token belongs to, as the kubelet requests it. */
  readonly pod?: object;
}

async function asAccount(server: ApiServer, name: string, bearer: Bearer = {}): Promise<Caller> {
  const token = await tokenOf(server, name, bearer);
  return (method, path, body) => answerTo(server, token, method, path, body);
}

async function answerTo(...asked: Parameters<typeof ask>): Promise<Verdict> {
  const response = await ask(...asked);
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return { status: response.statusCode ?? 0, text };
}

async function tokenOf(
  server: ApiServer,
  name: string,
  { namespace = 'home', pod: boundObjectRef }: Bearer = {},
): Promise<string> {
  const asked = await server.client.call<{ status: { token: string } }>({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { boundObjectRef } },
  });
  return asked.status.token;
}

async function ask(
  server: ApiServer,
  token: string,
  method: string,
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
) {
  // A request that connects to a pod cannot be a dry run; no kubelet exists here that it could reach.
  const connects = /\/(exec|attach)\b/.test(path);
  const dryRun = connects ? '' : `${path.includes('?') ? '&' : '?'}dryRun=All`;
  const asked = request(`${server.url}${path}${dryRun}`, {
    method,
    headers: {
      ...headers,
      authorization: `Bearer ${token}`,
      'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
    },
    rejectUnauthorized: false, // a server of this test's own, on loopback
  });
  asked.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return response;
}
