import type { ContainerStatus, Pod, Terminated } from '../kinds.ts';

/** The attester's exit code if it is not in the sandbox; other codes mean that it could not run. */
export const NOT_IN_SANDBOX = 1;

export const ATTESTER = 'attest';

/** The attester's exit code if a connection succeeded that the network policies should deny. */
export const WALLS_OPEN = 3;

/** A port of the canary that its own policy opens to everybody, and that no Assistant's policy permits. */
export const NO_WAY_OUT_PORT = 7002;

/** The command that attests once and exits with the result. */
export const ATTEST = ['/attest'];

/** The attester's own status in a tenant's pod. */
export function attesterStatus(pod: Pod): ContainerStatus | undefined {
  return pod.status?.initContainerStatuses?.find(({ name }) => name === ATTESTER);
}

/** How the attester last ended; while it is tried again, how it ended before. */
export function attesterEnd(status: ContainerStatus | undefined): Terminated | undefined {
  return status?.state?.terminated ?? status?.lastState?.terminated;
}

/** Whether the attester has let the pod's other containers start. */
export const isAttested = (pod: Pod): boolean => attesterStatus(pod)?.state?.terminated?.exitCode === 0;

/** Whether the attester found the pod outside the sandbox; then no other container of the pod starts. */
export function isOutside(pod: Pod): boolean {
  return attesterEnd(attesterStatus(pod))?.exitCode === NOT_IN_SANDBOX;
}

/** A container that proves from inside that its pod is in the sandbox, and exits. */
export function attesterContainer(image: string) {
  return {
    name: ATTESTER,
    image,
    command: ATTEST,
    // Alone in its pod, the container starts the sandbox as well. A busy node shares processor time by the requests, so
    // with a request near zero no probe would end in time.
    resources: { requests: { cpu: '100m', memory: '16Mi' }, limits: { cpu: '1', memory: '32Mi' } },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  };
}

/** Addresses that a pod connects to before tenant code starts. */
export interface Tried {
  readonly canary: readonly string[];
  /** Address and port. */
  readonly postgres: string;
}

/**
 * The attester in an Assistant's pod. It is an init container that ends: the kubelet starts what follows only when it has
 * recorded exit code 0. One that keeps running would save the second until the kubelet looks again, but its state `running`
 * alone lets the kubelet go on, even when its hook has just failed. The admission policy of the chart
 * (`charts/space/templates/sandbox-policy.yaml`) compares every field, so a change here needs the same change there.
 */
export function assistantAttester(image: string, { canary, postgres }: Tried) {
  return {
    ...attesterContainer(image),
    command: [
      ...ATTEST,
      `-the canary=${canary.join(',')}:${NO_WAY_OUT_PORT}`,
      // PostgreSQL must answer, as a control: only while it does, silence from the canary proves a network policy.
      `+PostgreSQL=${postgres}`,
    ],
    // The pod has the larger of its limits and the Assistant's, so it takes nothing of a quota.
    resources: { requests: { cpu: '1m', memory: '8Mi' }, limits: { cpu: '10m', memory: '16Mi' } },
  };
}
