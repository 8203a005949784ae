import type { ContainerStatus, Pod, Terminated } from '../kinds.ts';

/** The attester's exit code for what it is there to find; others say that it could not be run. */
export const NOT_IN_SANDBOX = 1;

export const ATTESTER = 'attest';

/** The attester's own status in a tenant's pod. */
export function attesterStatus(pod: Pod): ContainerStatus | undefined {
  return pod.status?.initContainerStatuses?.find(({ name }) => name === ATTESTER);
}

/** How it ended, the last time that it did. */
export function attesterEnd(status: ContainerStatus | undefined): Terminated | undefined {
  return status?.state?.terminated ?? status?.lastState?.terminated;
}

/** Whether the pod was found outside the sandbox; nothing of it runs, and nothing ever will. */
export function isOutside(pod: Pod): boolean {
  return attesterEnd(attesterStatus(pod))?.exitCode === NOT_IN_SANDBOX;
}

/**
 * The container that proves from inside that its pod is sandboxed. The admission policy of the chart knows it field by
 * field (`charts/space/templates/sandbox-policy.yaml`): what is changed here is changed there.
 */
export function attesterContainer(image: string) {
  return {
    name: ATTESTER,
    image,
    command: ['/attest'],
    // Far above its needs; said so that neither a LimitRange nor a quota says something else.
    resources: { requests: { cpu: '5m', memory: '16Mi' }, limits: { cpu: '1', memory: '32Mi' } },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  };
}
