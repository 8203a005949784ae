import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, type RequestOptions, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { KubeConfig } from '@kubernetes/client-node';
import type { KubeObject } from './kube-object.ts';

/**
 * Reads objects over connections that stay open. Suites repeat their requests until a condition holds, and a
 * `kubectl` for each would take a whole core from the cluster that they wait for.
 */
export interface Reader {
  /** The object, or undefined. `kind` is as for `kubectl get`: singular or plural. */
  get(kind: string, name: string, namespace?: string): Promise<KubeObject | undefined>;
  list(kind: string, namespace: string, selector?: string): Promise<KubeObject[]>;
}

/** The kinds that can be read, by API version: those in a namespace, and those of the cluster. */
const KINDS: readonly (readonly [version: string, namespaced: string, cluster: string])[] = [
  [
    'v1',
    'ConfigMap Event LimitRange PersistentVolumeClaim Pod ResourceQuota Secret Service ServiceAccount',
    'Namespace Node',
  ],
  ['apps/v1', 'DaemonSet Deployment StatefulSet', ''],
  ['batch/v1', 'CronJob Job', ''],
  ['networking.k8s.io/v1', 'NetworkPolicy', ''],
  ['rbac.authorization.k8s.io/v1', 'Role RoleBinding', 'ClusterRole ClusterRoleBinding'],
  ['coordination.k8s.io/v1', 'Lease', ''],
  ['node.k8s.io/v1', '', 'RuntimeClass'],
  ['admissionregistration.k8s.io/v1', '', 'ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding'],
  ['platform.space/v1', 'Assistant Capsule', ''],
];

const SILENCE_MS = 60_000;

interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

const pluralOf = (kind: string) => kind.toLowerCase().replace(/y$/, 'ie').replace(/ss$/, 'sse').concat('s');

const RESOURCES: readonly Resource[] = KINDS.flatMap(([apiVersion, namespaced, cluster]) => {
  const all = (kinds: string, isNamespaced: boolean) =>
    kinds
      .split(' ')
      .filter((kind) => kind !== '')
      .map((kind) => ({ apiVersion, kind, plural: pluralOf(kind), namespaced: isNamespaced }));
  return [...all(namespaced, true), ...all(cluster, false)];
});

function resourceOf(asked: string): Resource {
  const wanted = asked.toLowerCase();
  const found = RESOURCES.find(({ kind, plural }) => plural === wanted || kind.toLowerCase() === wanted);
  if (found === undefined) throw new Error(`the kind ${asked} is not among those that can be read here`);
  return found;
}

const collectionOf = ({ apiVersion, plural, namespaced }: Resource, namespace: string) =>
  `/${apiVersion.includes('/') ? 'apis' : 'api'}/${apiVersion}${namespaced ? `/namespaces/${namespace}` : ''}/${plural}`;

export function createReader(kubeconfig: string): Reader {
  let server: { readonly url: string; readonly options: RequestOptions } | undefined;

  async function open() {
    const config = new KubeConfig();
    config.loadFromFile(kubeconfig);
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    const { ca, cert, key } = options;
    const agent = new Agent({ ca, cert, key, keepAlive: true, timeout: SILENCE_MS });
    return { url: config.getCurrentCluster()?.server ?? '', options: { ...options, agent } };
  }

  /** Sends the request a second time if the API server had closed the open connection. */
  async function answerTo(path: string): Promise<IncomingMessage> {
    server ??= await open();
    const asked = request(server.url + path, server.options);
    asked.on('timeout', () => asked.destroy(new Error(`GET ${path}: no answer`))).end();
    try {
      const [answer] = await once(asked, 'response');
      return answer;
    } catch (error) {
      if (asked.reusedSocket) return answerTo(path);
      throw error;
    }
  }

  /** The document at a path; undefined for 404. */
  async function read<T>(path: string): Promise<T | undefined> {
    const answer = await answerTo(path);
    const body = await text(answer);
    if (answer.statusCode === 404) return undefined;
    if (answer.statusCode !== 200) throw new Error(`GET ${path}: ${answer.statusCode} ${body}`);
    return JSON.parse(body);
  }

  return {
    get: (kind, name, namespace = 'default') =>
      read<KubeObject>(`${collectionOf(resourceOf(kind), namespace)}/${name}`),
    async list(kind, namespace, selector) {
      const resource = resourceOf(kind);
      const query = selector === undefined ? '' : `?labelSelector=${encodeURIComponent(selector)}`;
      const found = await read<{ items: KubeObject[] }>(collectionOf(resource, namespace) + query);
      // The items of a list have no kind.
      return (found?.items ?? []).map((item) => ({
        ...item,
        apiVersion: resource.apiVersion,
        kind: resource.kind,
      }));
    },
  };
}
