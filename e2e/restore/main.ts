/**
 * `npm run restore`: restores a Space from its backup, in a cluster where it does not exist; or one Capsule, in a
 * running Space.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { commandLine } from '../../scripts/command-line.ts';
import { DEFAULT_CLUSTER, openCluster } from '../cluster/index.ts';
import { createSteps, type Steps } from '../progress/index.ts';
import { CHART } from '../space/chart.ts';
import { createKube, finish } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { restoreCapsule } from './capsule/index.ts';
import type { Restore } from './model.ts';
import { RestoreProblem } from './problem.ts';
import { restoreSpace } from './restore.ts';
import { restoreSecret } from './secret.ts';

const USAGE = `usage: npm run restore -- --values FILE --identity FILE --key FILE [options]
       npm run restore -- --capsule NAME [--as OTHER] --identity FILE [options]
       npm run restore -- --secret NAME --identity FILE [options]
  --capsule NAME         restores one Capsule into the running Space, and changes nothing else there
  --as OTHER             restores the Capsule under another name
  --secret NAME          restores one Secret of the running Space, in each of its namespaces where it is missing
  --values FILE          Helm values of the lost release; may be repeated
  --identity FILE        the age identity for backup.recipient (AGE-SECRET-KEY-1…), as age-keygen writes it; if the recipient was
                         changed, the identities of earlier recipients on further lines
  --key FILE             the key of the bucket with the backup: a line access-key=… and a line secret-key=…
  --at TIME              the moment to restore, such as 2026-11-21T10:30:00Z (default: the end of the backup)
  --drill                tries the backup in another cluster while the Space goes on: what is restored makes no backup, and starts no
                         Assistant
  --accept-sets CAPSULE  keeps the Capsule's own S3 credential sets in use as they were at that moment, even if they were changed
                         later; without it such sets stay closed until somebody decides; may be repeated
  --accept-lost CAPSULE  restores the Capsule without databases if the server that had them no longer has them; may be repeated
  --space NAME           the Helm release (home)
  --namespace NAMESPACE  the namespace of its Capsules (the Space's name)
  --kubeconfig FILE      the cluster (default: the one of "npm run up"); kubectl and helm are then taken from PATH`;

async function programs(kubeconfig: string | undefined) {
  if (kubeconfig !== undefined) return { kubectl: 'kubectl', helm: 'helm', kubeconfig };
  const name = process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER;
  const running = await openCluster(name);
  if (running === undefined)
    throw new RestoreProblem(
      `The cluster ${name} is not running. Start it with npm run up, or name another cluster with --kubeconfig FILE.`,
    );
  const [kubectl, helm] = [await running.tool('kubectl'), await running.tool('helm')];
  return { kubectl, helm, kubeconfig: running.kubeconfig };
}

/** The identities among the comments of age-keygen's file: more than one if the recipient was exchanged. */
const identitiesIn = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('AGE-SECRET-KEY-'));

function keyIn(text: string) {
  const [, access] = /^access-key=(\S+)\s*$/m.exec(text) ?? [];
  const [, secret] = /^secret-key=(\S+)\s*$/m.exec(text) ?? [];
  if (access === undefined || secret === undefined)
    throw new RestoreProblem('--key: the file needs a line access-key=… and a line secret-key=…');
  return { access, secret };
}

function momentOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const moment = new Date(text);
  const [, day] = /^(\d{4}-\d\d-\d\d)[T ]\S+(?:Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  // A day that its month does not have, such as 2026-06-31, would be the first one of the next.
  if (Number.isNaN(moment.getTime()) || day === undefined || !new Date(day).toISOString().startsWith(day))
    throw new RestoreProblem(`--at ${text}: write a time with its zone, such as 2026-11-21T10:30:00Z`);
  return moment.toISOString();
}

/** Reads a file that an option names. The error names the option and the file. */
async function contentOf(option: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new RestoreProblem(
      `${option} ${file}: the file cannot be read (${code === 'ENOENT' ? 'it does not exist' : code})`,
    );
  }
}

const { values: options } = commandLine(USAGE, {
  options: {
    values: { type: 'string', multiple: true, default: [] },
    identity: { type: 'string' },
    key: { type: 'string' },
    at: { type: 'string' },
    capsule: { type: 'string' },
    as: { type: 'string' },
    secret: { type: 'string' },
    drill: { type: 'boolean', default: false },
    'accept-sets': { type: 'string', multiple: true, default: [] },
    'accept-lost': { type: 'string', multiple: true, default: [] },
    space: { type: 'string', default: 'home' },
    namespace: { type: 'string' },
    kubeconfig: { type: 'string' },
  },
});

type Options = typeof options;

/** What a run needs, whatever it restores. */
interface Begun extends Pick<Restore, 'space' | 'namespace' | 'at' | 'identities' | 'steps' | 'signal'> {
  readonly kubectl: string;
  readonly helm: string;
  readonly kubeconfig: string;
}

const kubeOf = ({ kubectl, kubeconfig }: Begun) => createKube(kubectl, kubeconfig);

async function wholeSpace(
  begun: Begun,
  { values, key = '', drill, 'accept-sets': accepted, 'accept-lost': acceptedLost }: Options,
): Promise<object> {
  const { helm, kubeconfig, namespace } = begun;
  return restoreSpace({
    ...begun,
    kube: kubeOf(begun),
    helm: (...args) => finish(helm, ['--kubeconfig', kubeconfig, '--namespace', namespace, ...args]),
    chart: CHART,
    drill,
    accepted,
    acceptedLost,
    now: () => Date.now(),
    values: values.map((file) => resolve(file)),
    key: keyIn(await contentOf('--key', key)),
    parse: (yaml) =>
      parseAllDocuments(yaml)
        .map((document) => document.toJS() as KubeObject | null)
        .filter((object) => object !== null),
  });
}

async function oneSecret(begun: Begun, secret: string): Promise<object> {
  return restoreSecret({ ...begun, kube: kubeOf(begun), secret });
}

const NAME = /^(?=.{1,40}$)[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

async function oneCapsule(begun: Begun, capsule: string, as: string): Promise<object> {
  const { kubectl, kubeconfig } = begun;
  for (const name of [capsule, as])
    if (!NAME.test(name))
      throw new RestoreProblem(
        `${name} cannot be a Capsule's name: use 1 to 40 lowercase letters, digits and single hyphens, a letter first`,
      );
  return restoreCapsule({
    ...begun,
    kube: kubeOf(begun),
    kubectl: [kubectl, '--kubeconfig', kubeconfig],
    capsule,
    as,
    now: () => Date.now(),
  });
}

function restoredBy(begun: Begun, options: Options): Promise<object> {
  const { secret, capsule } = options;
  if (secret !== undefined) return oneSecret(begun, secret);
  if (capsule !== undefined) return oneCapsule(begun, capsule, options.as ?? capsule);
  return wholeSpace(begun, options);
}

async function main(options: Options, steps: Steps): Promise<void> {
  const { identity = '', space, namespace = space, kubeconfig } = options;
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  const at = momentOf(options.at);
  const identities = identitiesIn(await contentOf('--identity', identity));
  if (identities.length === 0)
    throw new RestoreProblem(`--identity ${identity}: the file has no line AGE-SECRET-KEY-1…`);
  for (const file of options.values) await contentOf('--values', file);
  if (kubeconfig !== undefined) await contentOf('--kubeconfig', kubeconfig);
  const tools = await programs(kubeconfig);
  const begun = { ...tools, space, namespace, at, identities, steps, signal: stop.signal };
  const restored = await restoredBy(begun, options);
  console.log(JSON.stringify(restored, null, 2));
}

/** The first error in a command line whose options are all known. */
function missing(): string {
  const { capsule, secret, identity, key, values, as } = options;
  if (capsule !== undefined && secret !== undefined) return '--capsule and --secret cannot be used together';
  if (identity === undefined) return '--identity FILE is missing';
  // One part is restored into the running Space, where nothing is only tried.
  if (isPartDrilled) return '--drill can only be used for a whole Space';
  if (as !== undefined) return '--as can only be used with --capsule';
  const lacking = [
    ...(values.length === 0 ? ['--values FILE'] : []),
    ...(key === undefined ? ['--key FILE'] : []),
  ];
  return `${lacking.join(' and ')} ${lacking.length > 1 ? 'are' : 'is'} missing. A restore of a whole Space needs them; to restore one part, name it with --capsule or --secret`;
}

const isWhole = options.key !== undefined && options.values.length > 0 && options.as === undefined;
const isOne = (options.capsule === undefined) !== (options.secret === undefined);
const isPartDrilled = options.drill && (options.capsule ?? options.secret) !== undefined;
if (options.identity === undefined || isPartDrilled || !(isOne || isWhole)) {
  console.error(`${missing()}\n${USAGE}`);
  process.exitCode = 2;
} else {
  const steps = createSteps();
  try {
    await main(options, steps);
  } catch (error) {
    process.exitCode = 1;
    // A step that failed has already reported the error.
    const isTold = steps.summary().some(({ outcome }) => outcome === 'failed');
    if (!isTold) console.error(error instanceof Error ? error.message : error);
  } finally {
    steps.close();
  }
}
