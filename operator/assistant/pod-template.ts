import { ANNOTATION } from '../names.ts';
import type { Desired } from '../runtime/apply.ts';
import { digestOf } from '../runtime/digest.ts';
import { type Workload, workloadLabels, workloadMetadata } from './identity.ts';
import { type Bindings, podSpec, portOf } from './pod-spec.ts';

export function serviceObject(workload: Workload): Desired {
  const port = portOf(workload);
  return {
    metadata: workloadMetadata(workload, workload.manifest.platform.id),
    spec: {
      type: 'ClusterIP',
      selector: workloadLabels(workload),
      ports: [{ name: 'http', protocol: 'TCP', port, targetPort: port }],
    },
  };
}

export function deploymentObject(
  workload: Workload,
  bindings: Bindings,
): { desired: Desired; revision: string } {
  const labels = workloadLabels(workload);
  const { annotations, ...rest } = workloadMetadata(workload, workload.manifest.platform.id);
  const spec = podSpec(workload, bindings);
  // The name of a ConfigMap contains a digest of its content; the name of a Secret does not, so its digest goes into
  // the revision.
  const secrets = [
    bindings.database.digest,
    ...(bindings.objects ? [bindings.objects.tokenDigest] : []),
    ...(bindings.egress ? [bindings.egress.principalDigest] : []),
  ];
  const revision = digestOf([labels, spec, ...secrets]);
  return {
    revision,
    desired: {
      metadata: { ...rest, annotations },
      spec: {
        replicas: workload.assistant.spec.replicas ?? 1,
        revisionHistoryLimit: 1,
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
        selector: { matchLabels: labels },
        template: {
          metadata: { labels, annotations: { ...annotations, [ANNOTATION.revision]: revision } },
          spec,
        },
      },
    },
  };
}
