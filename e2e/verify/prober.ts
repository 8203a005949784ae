/** The Assistant that tries connections from a Capsule, and the stored input that it must never see. */
import { createHash } from 'node:crypto';
import { MARK, type Place, PORT } from './bystanders.ts';
import { TRY_TARGETS } from './look.ts';

export const PROBER = 'prober';
export const INPUT = 'probe';
/** The longest argument that a manifest accepts. */
const ARGUMENT = 4_000;

/** With an allowed host the Assistant gets a credential for the gateway. These names do not exist. */
const ALLOWED_HOST = 'verify.space-probe.org';
const INPUT_HOST = 'vault.space-probe.org';

/** A value that is valid nowhere and occurs nowhere else. */
export const canaryValue = ({ run }: Pick<Place, 'run'>, capsule: string): string =>
  `sk_verify_${createHash('sha256').update(`${run}/${capsule}`).digest('hex')}`;

export const storedInput = (place: Place, capsule: string) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: {
    name: capsule,
    namespace: place.namespace,
    labels: { [MARK]: place.run, 'platform.space/capsule': capsule },
  },
  type: 'platform.space/stored-input',
  stringData: { value: canaryValue(place, capsule) },
});

const MANIFEST = {
  platform: {
    spec: 1,
    id: PROBER,
    version: '1.0.0',
    name: 'Prober',
    summary: 'Tests the network policies of its Space from inside',
    description:
      'Tries connections that should be denied, from its first instruction on, and prints the results.',
    creators: ['@space'],
    github: 'https://github.com/space/verify',
    genesis: 'Try each target, and print the result.',
  },
  network: { allowed_hosts: [ALLOWED_HOST] },
  stored_inputs: {
    [INPUT]: {
      kind: 'password',
      label: 'A value that no pod of the Capsule may see',
      description:
        'Created by a run of verify, which searches pods and objects for it. It gives access to nothing.',
      help_url: 'https://help.space-probe.org/verify',
      host: INPUT_HOST,
      routes: [{ method: 'GET', path: '/v1/nothing' }],
      header: 'X-Api-Key',
    },
  },
};

export function prober(place: Place, capsule: string, image: string, targets: readonly string[]) {
  return {
    apiVersion: 'platform.space/v1',
    kind: 'Assistant',
    metadata: { name: capsule, namespace: place.namespace, labels: { [MARK]: place.run } },
    spec: {
      capsule,
      image,
      command: ['perl', '-e', TRY_TARGETS, '3', '20', ...packed(targets)],
      env: [{ name: 'LISTEN', value: `${PORT}` }],
      port: PORT,
      resources: { requests: { cpu: '50m', memory: '64Mi' }, limits: { cpu: '1', memory: '256Mi' } },
      storedInputs: { [INPUT]: { secretKeyRef: { name: capsule, key: 'value' } } },
      manifest: MANIFEST,
    },
  };
}

function packed(targets: readonly string[]): string[] {
  const words: string[] = [];
  for (const target of targets) {
    const last = words.at(-1);
    if (last !== undefined && last.length + target.length < ARGUMENT)
      words[words.length - 1] = `${last},${target}`;
    else words.push(target);
  }
  return words;
}
