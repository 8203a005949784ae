import { parseAllDocuments } from 'yaml';
import { CHART, SOME_IMAGES } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const COLLECTIONS: Readonly<Record<string, string>> = {
  ValidatingAdmissionPolicy: `${ADMISSION}/validatingadmissionpolicies`,
  ValidatingAdmissionPolicyBinding: `${ADMISSION}/validatingadmissionpolicybindings`,
};

/** The chart's objects that keep a Space's Capsules in the sandbox, each with the path to create it at. */
export async function sandboxPolicies(
  helm: string,
  space: string,
  settings: Readonly<Record<string, string>>,
): Promise<{ readonly path: string; readonly object: KubeObject }[]> {
  const set = Object.entries(settings).flatMap(([name, value]) => ['--set-string', `${name}=${value}`]);
  const args = ['template', space, CHART, '--namespace', space, '--no-hooks', ...SOME_IMAGES, ...set];
  const { code, stdout, stderr } = await finish(helm, args);
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout)
    .map((document) => document.toJS() as KubeObject | null)
    .flatMap((object) => {
      const path = object === null ? undefined : COLLECTIONS[object.kind];
      const ours = object?.metadata.name.startsWith(`${space}-sandbox`) === true;
      return object !== null && ours && path !== undefined ? [{ path, object }] : [];
    });
}
