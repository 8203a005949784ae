import type { Problem } from '../native/preflight.ts';
import { ClusterProblem } from '../problem.ts';
import { ProgramFailed, run } from '../run.ts';
import { NODE_IMAGE } from './configuration.ts';

/** The node image; SPACE_NODE_IMAGE names another if Docker Hub cannot be reached. */
export const nodeImage = (): string => process.env['SPACE_NODE_IMAGE'] ?? NODE_IMAGE;

/** Facts about the Docker engine that are checked before it is used. */
export interface EngineFacts {
  /** Whether the program docker exists. */
  readonly installed: boolean;
  /** The message of `docker` if no engine answers. */
  readonly silent: string | undefined;
  /** The address at which the engine listens. */
  readonly host: string;
  readonly os: string;
  readonly rootless: boolean;
  readonly cgroups: string;
  /** The node image that will be used. */
  readonly image: string;
}

const isLocal = (host: string): boolean => /^(unix|npipe):/.test(host);

/** All problems at once. */
export function problemsOf(facts: EngineFacts): readonly Problem[] {
  const { installed, silent, host, os, rootless, cgroups, image } = facts;
  if (!installed)
    return [
      {
        wrong: 'The program docker is not there.',
        mend: 'Install Docker with its engine, or choose another provider with --provider.',
      },
    ];
  if (!isLocal(host))
    return [
      {
        wrong: `The Docker engine is on another machine (${host}), and so would be the API server’s port.`,
        mend: 'Choose an engine of this machine (unset DOCKER_HOST, docker context use default), or bring up the cluster there.',
      },
    ];
  if (silent !== undefined)
    return [
      {
        wrong: `No Docker engine answers at ${host}${silent === '' ? '.' : `: ${silent}`}`,
        mend: 'Start it (docker info tells when it runs), or choose another provider with --provider.',
      },
    ];
  const problems: Problem[] = [];
  if (os !== 'linux')
    problems.push({
      wrong: `The Docker engine runs containers of ${os}; a node is one of Linux.`,
      mend: 'Switch it to Linux containers.',
    });
  if (rootless)
    problems.push({
      wrong: 'The Docker engine is rootless: gVisor and Calico cannot do their work in such a node.',
      mend: 'Choose an engine that runs as root (docker context use default), or another provider with --provider.',
    });
  if (cgroups === '1' && image === NODE_IMAGE)
    problems.push({
      wrong: 'This machine has cgroup v1, on which the systemd of kind’s node image does not start.',
      mend: 'Boot it with systemd.unified_cgroup_hierarchy=1, or choose --provider native, which needs no Docker engine.',
    });
  return problems;
}

/** Without an engine, `docker info` describes only the client, and succeeds. */
interface Info {
  readonly ServerErrors?: readonly string[] | null;
  readonly OSType?: string;
  readonly CgroupVersion?: string;
  readonly SecurityOptions?: readonly string[] | null;
}

export async function gatherFacts(image: string): Promise<EngineFacts> {
  const host = await run(['docker', 'context', 'inspect', '--format', '{{.Endpoints.docker.Host}}']).then(
    (text) => text.trim(),
    () => process.env['DOCKER_HOST'] ?? 'unix:///var/run/docker.sock',
  );
  const unknown = { installed: true, host, os: '', rootless: false, cgroups: '', image };
  if (!isLocal(host)) return { silent: '', ...unknown }; // it may take minutes not to answer
  try {
    const info = JSON.parse(await run(['docker', 'info', '--format', '{{json .}}'])) as Info;
    return {
      installed: true,
      silent: info.ServerErrors?.join(' ') || undefined,
      host,
      os: info.OSType ?? '',
      rootless: (info.SecurityOptions ?? []).includes('name=rootless'),
      cgroups: info.CgroupVersion ?? '',
      image,
    };
  } catch (error) {
    if (!(error instanceof ProgramFailed)) throw error;
    const installed = (error.cause as NodeJS.ErrnoException | undefined)?.code !== 'ENOENT';
    return { ...unknown, installed, silent: lastWords(error) };
  }
}

/** The message without its first line, which is the command and was not given by the user. */
const lastWords = ({ message }: ProgramFailed): string => message.split('\n').slice(1).join(' ');

const VERSION = /^v(\d+\.\d+)\./;

/**
 * Reports a node image of another minor version of Kubernetes than the one that is tested; undefined if it is the
 * same.
 */
export function imageProblem(image: string, version: string, wanted: string): Problem | undefined {
  const [, minor] = VERSION.exec(wanted) ?? [];
  const [, found] = VERSION.exec(version.trim()) ?? [];
  if (found !== undefined && found === minor) return undefined;
  return {
    wrong: `The node image ${image} has ${found === undefined ? 'no Kubernetes that can be told' : `Kubernetes ${version.trim()}`}; Space is tested with ${minor}.`,
    mend: `Leave out SPACE_NODE_IMAGE, or name an image of Kubernetes ${minor}.`,
  };
}

export function refuse(...problems: readonly Problem[]): void {
  const [first, ...others] = problems.map(({ wrong, mend }) => `${wrong}\n${mend}`);
  if (first !== undefined) throw new ClusterProblem(first, others.join('\n'));
}
