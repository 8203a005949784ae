/** Maintenance of a Space in use, with the commands of its documents; each act ends when everything works as before. */
import { eventually } from '../../testing/eventually.ts';
import { NAMES, type SpaceUnderLoad } from './space.ts';

const { namespace, systemNamespace: system, servicesNamespace: services } = NAMES;
const WITHIN_MS = 20 * 60_000;
/** The minutes of each step of the CA's exchange. */
const STEP_MINUTES = 2;

/** Values of a version with another log level, which replaces every pod of these programs and which tenants cannot notice. */
const version = (logLevel: string) =>
  Object.fromEntries(
    ['operator', 'dbBroker', 'objectStore', 'egress', 'console'].map((of) => [of, { logLevel }]),
  );

export interface Act {
  readonly name: string;
  act(): Promise<unknown>;
}

export function actsOn(space: SpaceUnderLoad): readonly Act[] {
  const { release, outside, kubectl, drainable, ready } = space;
  const upgrade = (to: object) => release.upgrade(release.values, outside, to);
  let turn = 0;
  // A value that was not used for a key or CA of this Space yet, also not by an earlier run.
  const fresh = () => `${space.name}-${turn}`;
  return [
    { name: 'upgrade', act: () => upgrade(version('warn')) },
    { name: 'rollback', act: () => release.rollBack() },
    {
      name: 'key rotation',
      act: async () => {
        turn += 1;
        await rotate(space, fresh());
      },
    },
    { name: 'CA exchange', act: () => exchange(space, fresh()) },
    {
      name: 'drained node',
      act: async () => {
        const flags = ['--ignore-daemonsets', '--delete-emptydir-data', '--force', '--timeout=600s'];
        await kubectl('drain', drainable, ...flags);
        await ready();
        await kubectl('uncordon', drainable);
      },
    },
  ];
}

/** docs/rotation.md: creates a new key that passwords are derived from, and then all passwords. */
async function rotate({ kube, kubectl, ready, name }: SpaceUnderLoad, value: string): Promise<void> {
  const ring = async () =>
    Buffer.from(
      (await kube.get('secret', 'db-broker-keys', services))?.['data'].derivation ?? '',
      'base64',
    ).toString();
  const before = await ring();
  const fresh = await kubectl(
    'exec',
    '-n',
    services,
    'postgres-0',
    '-c',
    'postgres',
    '--',
    'sh',
    '-c',
    NEW_KEY,
  );
  const derivation = Buffer.from(`${fresh}\n${before}`).toString('base64');
  await kubectl(
    'patch',
    'secret',
    'db-broker-keys',
    '-n',
    services,
    '-p',
    JSON.stringify({ data: { derivation } }),
  );
  const admin = ['exec', '-n', services, 'deploy/db-broker', '--', 'node', '/app/admin.mjs'];
  await kubectl(...admin, 'rotate', name);
  const set = `platform.space/rotate=${value}`;
  await kubectl('annotate', 'assistant', name, '-n', namespace, '--overwrite', set);
  await kubectl('annotate', 'capsule', name, '-n', namespace, '--overwrite', set);
  await eventually(
    async () =>
      !(await kubectl(...admin, 'list')).split('\n').some((line) => line.includes('"rotation_due":true')),
    { what: 'nothing is due', within: WITHIN_MS },
  );
  await ready();
}

/** 32 bytes as 43 characters of base64url. */
const NEW_KEY = "head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\\n'";

/** docs/chart.md: exchanges the CA in steps, each started as soon as it is permitted. */
async function exchange(
  { kube, kubectl, ready, release, outside }: SpaceUnderLoad,
  value: string,
): Promise<void> {
  await release.upgrade(release.values, outside, { tls: { caStepMinutes: STEP_MINUTES } });
  const asked = `platform.space/exchange=${value}`;
  await kubectl('annotate', 'secret', 'space-ca', '-n', services, '--overwrite', asked);
  const state = async () => {
    const secret = await kube.get('secret', 'space-ca', services);
    return {
      served: secret?.metadata.annotations?.['platform.space/exchanged'],
      keys: Object.keys(secret?.['data'] ?? {}),
    };
  };
  let run = 0;
  await eventually(
    async () => {
      run += 1;
      const job = `${value}-keys-${run}`;
      await kubectl('create', 'job', job, '-n', system, '--from=cronjob/home-keys');
      await kubectl('wait', `job/${job}`, '-n', system, '--for=condition=complete', '--timeout=300s');
      await kubectl('delete', 'job', job, '-n', system);
      const { served, keys } = await state();
      // The time of a step begins only when all pods trust the published CA.
      await ready();
      return served === value && keys.length === 2;
    },
    { what: 'the CA is exchanged', within: WITHIN_MS },
  );
}
