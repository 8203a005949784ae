/** Pods of a run that are not Assistants. They wait for a command, and answer at one port. */
import type { Party, Picture } from './arrows.ts';
import { COMPONENT } from './discover.ts';
import { TRY_TARGETS } from './look.ts';

/** Marks everything that a run creates, so that the next run finds what a killed one has left. */
export const MARK = 'platform.space/verify';
/** Names the Space for which a run created a namespace; it does not make it one of that Space's. */
export const OF_SPACE = 'platform.space/verify-space';
const SPACE = 'platform.space/space';
const LIFETIME = 600;
export const PORT = 8080;

export interface Place {
  readonly space: string;
  /** The namespace of Capsules and Assistants. */
  readonly namespace: string;
  /** The name of this run, which is part of the names of its objects. */
  readonly run: string;
  /** Seconds after which its bystanders end, if the run is killed and does not delete them. */
  readonly lifetime?: number;
}

/** A namespace that has nothing to do with the Space. */
export const strangerNamespace = ({ run }: Place) => `verify-${run}`;

interface Bystander {
  readonly name: string;
  readonly party: Party;
  readonly pod: ReturnType<typeof podOf>;
}

export function bystandersOf(place: Place, picture: Picture, image: string): Bystander[] {
  const { space, namespace, run } = place;
  const at = (name: string, party: Party, where: string, labels: object = {}): Bystander => ({
    name,
    party,
    pod: podOf(place, `verify-${run}-${name.replaceAll(/\W+/g, '-')}`, where, image, labels),
  });
  const [system, services] = [`${space}-system`, `${space}-services`];
  return [
    at('client', 'client', namespace, { 'platform.space/client': 'true' }),
    at('neighbour', 'neighbour', namespace),
    // It has the labels of a component, which must open nothing in a namespace of its own.
    at('stranger', 'stranger', strangerNamespace(place), {
      [SPACE]: space,
      [COMPONENT]: 'operator',
      'platform.space/assistant': 'x',
      'platform.space/client': 'true',
    }),
    // Pods without labels beside the components: a pod that somebody starts there by hand must reach nothing.
    at('unlabelled in system', 'unlabelled', system),
    at('unlabelled in services', 'unlabelled', services),
    // These have the labels of programs that run only at times, and of one that cannot ping.
    at('canary, stand-in', 'canary', services, { [SPACE]: space, [COMPONENT]: 'canary' }),
    ...(picture.backup ? [at('backup', 'backup', services, { [SPACE]: space, [COMPONENT]: 'backup' })] : []),
    at('keys', 'keys', system, { [SPACE]: space, [COMPONENT]: 'keys' }),
    at('uninstall-guard', 'uninstall-guard', system, { [SPACE]: space, [COMPONENT]: 'uninstall-guard' }),
    at('release-test', 'release-test', system, { [SPACE]: space, [COMPONENT]: 'release-test' }),
  ];
}

/** The pod satisfies Pod Security `restricted`. */
function podOf(place: Place, name: string, namespace: string, image: string, labels: object) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels: { ...labels, [MARK]: place.run } },
    spec: {
      // A container that a busy node fails to start is started again.
      restartPolicy: 'Always',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 0,
      // Nothing sets this condition, so the pod is never ready, and no Service sends connections to it although it
      // has a component's labels.
      readinessGates: [{ conditionType: MARK }],
      activeDeadlineSeconds: place.lifetime ?? LIFETIME,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'bystander',
          image,
          command: ['perl', '-e', TRY_TARGETS, '0', '0'],
          env: [{ name: 'LISTEN', value: `${PORT}` }],
          resources: { requests: { cpu: '10m', memory: '32Mi' }, limits: { cpu: '1', memory: '128Mi' } },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
        },
      ],
    },
  };
}
