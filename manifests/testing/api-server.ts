import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { ApiError } from '../../operator/runtime/errors.ts';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const RELEASE = 'space';
export const NAMESPACE = 'default';

/** A real API server with what the chart installs, as a judge of resources. */
export interface ApiServerJudge {
  /** Why it refuses a resource; undefined when it takes it. Nothing is stored. */
  refusal(resource: object): Promise<string | undefined>;
  readonly server: ApiServer;
  stop(): Promise<void>;
}

interface Applied {
  readonly kind: string;
}

const PATHS: Readonly<Record<string, string>> = {
  CustomResourceDefinition: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  ValidatingAdmissionPolicy: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
  Capsule: `/apis/platform.space/v1/namespaces/${NAMESPACE}/capsules`,
  Assistant: `/apis/platform.space/v1/namespaces/${NAMESPACE}/assistants`,
};

/** The objects of a file of the chart, with what Helm fills in. */
async function objectsOf(file: string): Promise<readonly Applied[]> {
  const text = (await readFile(resolve(ROOT, file), 'utf8'))
    .replaceAll('{{ .Release.Name }}', RELEASE)
    .replaceAll('{{ .Release.Namespace }}', NAMESPACE)
    .replaceAll('{{ .Release.Service }}', 'Helm');
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents)) throw new Error(`${file} is empty`);
  return documents.map((document) => document.toJS() as Applied);
}

export async function startJudge(): Promise<ApiServerJudge> {
  await using opened = new AsyncDisposableStack();
  const server = await startApiServer();
  opened.defer(() => server.stop());
  const post = (object: Applied, query: Readonly<Record<string, string>> = {}) =>
    server.client.call({
      method: 'POST',
      path: PATHS[object.kind] ?? '',
      body: object,
      query,
      timeoutMs: 60_000,
    });
  const refusal = async (resource: object) => {
    try {
      await post(resource as Applied, { dryRun: 'All', fieldValidation: 'Ignore' });
      return undefined;
    } catch (error) {
      // Any other answer is no verdict.
      if (error instanceof ApiError && error.status === 422) return error.message;
      throw error;
    }
  };
  for (const file of ['capsules', 'assistants']) {
    for (const directory of ['charts/space/crds', 'charts/space/templates/generated']) {
      for (const object of await objectsOf(`${directory}/${file}.yaml`)) await post(object);
    }
  }
  const closed = (kind: string, spec: object) => async () => {
    const resource = { apiVersion: 'platform.space/v1', kind, metadata: { name: 'x' }, spec };
    return (await refusal(resource).catch(() => undefined))?.includes('ValidatingAdmissionPolicy') ?? false;
  };
  const [example] = await objectsOf('manifests/examples/ledger.yaml');
  const { spec } = example as unknown as { spec: object };
  await eventually(closed('Capsule', { unknown: 1 }), { within: 60_000, what: 'the policy on Capsules' });
  await eventually(closed('Assistant', { ...spec, unknown: 1 }), {
    within: 60_000,
    what: 'the policy on Assistants',
  });
  const whole = opened.move();
  return { refusal, server, stop: () => whole.disposeAsync() };
}
