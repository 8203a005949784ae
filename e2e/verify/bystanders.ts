/** Pods of a run that are no Assistants: they wait to be asked, and answer at one port. */
import type { Party, Picture } from './arrows.ts';
import { COMPONENT } from './discover.ts';
import { LOOK } from './look.ts';

/** On all that a run makes, so that the next one finds what one that was killed has left. */
export const MARK = 'platform.space/verify';
const SPACE = 'platform.space/space';
const LIFETIME = 600;
export const PORT = 8080;

export interface Place {
  readonly space: string;
  /** Where people keep Capsules. */
  readonly namespace: string;
  /** Names what this run makes. */
  readonly run: string;
  /** Seconds after which its bystanders end, should nobody be left to take them away. */
  readonly lifetime?: number;
}

/** The namespace of whoever has nothing to do with the Space. */
export const strangers = ({ run }: Place) => `verify-${run}`;

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
    // It calls itself what it likes: labels in a namespace of its own open nothing.
    at('stranger', 'stranger', strangers(place), {
      [SPACE]: space,
      [COMPONENT]: 'operator',
      'platform.space/assistant': 'x',
      'platform.space/client': 'true',
    }),
    // Pods beside the components: whatever somebody starts there by hand can reach nothing.
    at('unlabelled in system', 'unlabelled', system),
    at('unlabelled in services', 'unlabelled', services),
    // They stand for programs that come and go, and for one that has no ping.
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
      // Nothing answers to it, so it is never ready: no Service sends anybody to one that has a part's labels.
      readinessGates: [{ conditionType: MARK }],
      activeDeadlineSeconds: place.lifetime ?? LIFETIME,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'bystander',
          image,
          command: ['perl', '-e', LOOK, '0', '0'],
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
