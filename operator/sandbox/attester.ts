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

/** How the attester last ended; undefined while it runs, since it then has attested. */
export function attesterEnd(status: ContainerStatus | undefined): Terminated | undefined {
  if (status?.state?.running) return undefined;
  return status?.state?.terminated ?? status?.lastState?.terminated;
}

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
 * The attester in an Assistant's pod, which keeps running: the kubelet notices at once that a container has started,
 * but that one has ended only at its next check, up to a second later. It attests twice before anything else starts, in
 * the container itself and in its hook. The admission policy of the chart
 * (`charts/space/templates/sandbox-policy.yaml`) compares every field, so a change here needs the same change there.
 */
export function attesterSidecar(image: string, { canary, postgres }: Tried) {
  const targets = [
    `-the canary=${canary.join(',')}:${NO_WAY_OUT_PORT}`,
    // PostgreSQL must answer, as a control: only while it does, silence from the canary proves a network policy.
    `+PostgreSQL=${postgres}`,
  ];
  return {
    ...attesterContainer(image),
    command: [...ATTEST, 'hold', ...targets],
    restartPolicy: 'Always',
    lifecycle: { postStart: { exec: { command: [...ATTEST, ...targets] } } },
    // The requests count for as long as the pod lives; the runtime's own process needs most of them.
    resources: { requests: { cpu: '1m', memory: '8Mi' }, limits: { cpu: '10m', memory: '16Mi' } },
  };
}
