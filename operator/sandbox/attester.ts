import type { ContainerStatus, Pod, Terminated } from '../kinds.ts';

/** The attester's exit code for what it is there to find; others say that it could not be run. */
export const NOT_IN_SANDBOX = 1;

export const ATTESTER = 'attest';

/** The attester's exit code for walls that do not stand. */
export const WALLS_OPEN = 3;

/** Where the canary may be reached by everybody who may go there, which no Assistant may. */
export const NO_WAY_OUT_PORT = 7002;

/** Asks once, and ends with the answer. */
export const ATTEST = ['/attest'];

/** The attester's own status in a tenant's pod. */
export function attesterStatus(pod: Pod): ContainerStatus | undefined {
  return pod.status?.initContainerStatuses?.find(({ name }) => name === ATTESTER);
}

/** How it ended, the last time that it did; nothing while it runs, for then it has attested. */
export function attesterEnd(status: ContainerStatus | undefined): Terminated | undefined {
  if (status?.state?.running) return undefined;
  return status?.state?.terminated ?? status?.lastState?.terminated;
}

/** Whether the pod was found outside the sandbox; nothing of it runs, and nothing ever will. */
export function isOutside(pod: Pod): boolean {
  return attesterEnd(attesterStatus(pod))?.exitCode === NOT_IN_SANDBOX;
}

/** The container that proves from inside that its pod is sandboxed, and ends. */
export function attesterContainer(image: string) {
  return {
    name: ATTESTER,
    image,
    command: ATTEST,
    // Alone in its pod, it starts the sandbox as well. A node that has much to do gives processor time in proportion to
    // the request: with one that is near nothing, no probe would end in its time.
    resources: { requests: { cpu: '100m', memory: '16Mi' }, limits: { cpu: '1', memory: '32Mi' } },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  };
}

/** Addresses that a pod tries before tenant code starts. */
export interface Tried {
  readonly canary: readonly string[];
  /** With its port. */
  readonly postgres: string;
}

/**
 * The same for an Assistant's pod, where it goes on: the kubelet sees at once that a container has started, and only
 * at its next look, up to a second later, that one has ended. It asks twice before anything else starts, as the
 * container itself and as its hook. The admission policy of the chart knows it field by field
 * (`charts/space/templates/sandbox-policy.yaml`): what is changed here is changed there.
 */
export function attesterSidecar(image: string, { canary, postgres }: Tried) {
  const targets = [
    `-the canary=${canary.join(',')}:${NO_WAY_OUT_PORT}`,
    // The clock: while this answers, silence of the other is a wall.
    `+PostgreSQL=${postgres}`,
  ];
  return {
    ...attesterContainer(image),
    command: [...ATTEST, 'hold', ...targets],
    restartPolicy: 'Always',
    lifecycle: { postStart: { exec: { command: [...ATTEST, ...targets] } } },
    // It counts for as long as the pod lives. The runtime's own process for it takes most of this.
    resources: { requests: { cpu: '1m', memory: '8Mi' }, limits: { cpu: '10m', memory: '16Mi' } },
  };
}
