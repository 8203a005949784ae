/** `npm run verify`: measures the isolation of a Space on any cluster, and names what differs from arrows.ts. */
import { createPrivateKey, randomBytes } from 'node:crypto';
import { access, constants, readFile, stat, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { dirname, resolve } from 'node:path';
import { commandLine } from '../../scripts/command-line.ts';
import { DEFAULT_CLUSTER, openCluster } from '../cluster/index.ts';
import { createKube } from '../space/kube.ts';
import { failures, signReport, textOf } from './report.ts';
import { verify } from './verify.ts';

const USAGE = `usage: npm run verify -- [options]
  --kubeconfig FILE      an administrator's kubeconfig of the cluster to measure (default: the cluster of "npm run up"); kubectl is then taken from PATH
  --space NAME           the Helm release (home)
  --namespace NAMESPACE  the namespace of its Capsules (the Space's name)
  --outside ADDRESS:PORT an address outside the cluster at which a server answers; may be repeated; without it no address outside is tried
  --patience SECONDS     how long to wait for each pod (150)
  --key FILE             Ed25519 key (PEM, PKCS #8) that signs the report (default: a new key for this report alone)
  --report FILE          the file to write the report to (verify-report.json)`;

const { values } = commandLine(USAGE, {
  options: {
    kubeconfig: { type: 'string' },
    space: { type: 'string', default: 'home' },
    namespace: { type: 'string' },
    outside: { type: 'string', multiple: true, default: [] },
    patience: { type: 'string', default: '150' },
    key: { type: 'string' },
    report: { type: 'string', default: 'verify-report.json' },
    help: { type: 'boolean', short: 'h', default: false },
  },
});

async function cluster(): Promise<{ readonly kubectl: string; readonly kubeconfig: string }> {
  if (values.kubeconfig !== undefined) return { kubectl: 'kubectl', kubeconfig: values.kubeconfig };
  const name = process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER;
  const running = await openCluster(name);
  if (running === undefined)
    throw new Error(
      `The cluster ${name} is not running. Start it with npm run up, or name another cluster with --kubeconfig FILE.`,
    );
  return { kubectl: await running.tool('kubectl'), kubeconfig: running.kubeconfig };
}

function addressOf(text: string) {
  const [, address = '', port] = /^\[?([^[\]]+)\]?:(\d+)$/.exec(text) ?? [];
  if (isIP(address) === 0 || !(Number(port) > 0 && Number(port) <= 65_535))
    throw new Error(`--outside ${text}: write ADDRESS:PORT, such as 203.0.113.7:443`);
  return { address, port: Number(port) };
}

/**
 * Files are read before anything is created, since a later failure is reported as one that may leave objects in the
 * cluster.
 */
function contentOf(option: string, file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw new Error(`${option} ${file}: the file cannot be read`, { cause });
  });
}

/** A run takes a minute or more, and its report must not be lost at the end. */
async function checkReport(file: string): Promise<void> {
  const there = await stat(file).catch(() => undefined);
  if (there?.isDirectory() || file.endsWith('/'))
    throw new Error(`--report ${file}: this is a folder, name a file in it`);
  const folder = dirname(resolve(file));
  await access(there ? file : folder, constants.W_OK).catch((cause: unknown) => {
    const reason = there
      ? 'you may not write to it'
      : `the folder ${folder} does not exist, or you may not write to it`;
    throw new Error(`--report ${file}: ${reason}`, { cause });
  });
}

async function main(): Promise<boolean> {
  const outside = values.outside.map(addressOf);
  if (!(Number(values.patience) > 0))
    throw new Error(`--patience ${values.patience}: write a number of seconds`);
  const key = values.key === undefined ? undefined : createPrivateKey(await contentOf('--key', values.key));
  if (values.kubeconfig !== undefined) await contentOf('--kubeconfig', values.kubeconfig);
  await checkReport(values.report);
  const { kubectl, kubeconfig } = await cluster();
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => stop.abort(new Error(`ended by ${signal}`)));
  const { space, namespace = space } = values;
  const report = await verify(
    { space, namespace, run: randomBytes(4).toString('hex').replace(/^\d/, 'v'), outside },
    {
      kube: createKube(kubectl, kubeconfig),
      clock: Date.now,
      patience: { seconds: Number(values.patience), signal: stop.signal },
      say: (what) => console.error(`… ${what}`),
    },
  );
  console.log(textOf(report));
  await writeFile(values.report, `${JSON.stringify(signReport(report, key), null, 2)}\n`);
  console.log(`report: ${values.report}`);
  return failures(report).length === 0;
}

if (values.help) console.log(USAGE);
else
  try {
    process.exitCode = (await main()) ? 0 : 1;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 2;
  }
