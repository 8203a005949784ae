import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';

/** How a pod of the Space starts its program. */
export interface PodCommand {
  /** Flags of Node. */
  readonly flags: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Reads the image's Dockerfile and the chart, so that programs are measured with the flags of Node that are shipped. */
export async function podCommand(dockerfile: string, service: string): Promise<PodCommand> {
  const text = await readFile(dockerfile, 'utf8');
  const [, command = '[]'] = /^(?:CMD|ENTRYPOINT) (\[.*\])$/m.exec(text) ?? [];
  const words = JSON.parse(command) as string[];
  // The command may be a shell that sets a limit and then executes the program.
  const [node, ...args] = words[0] === 'sh' ? (words[2]?.split(' exec ')[1]?.split(' ') ?? []) : words;
  const program = args.at(-1) ?? '';
  if (node !== 'node' || !/^(?:\/app\/)?main\.mjs$/.test(program))
    throw new Error(`${dockerfile} does not start main.mjs`);
  const variables = [...text.matchAll(/^ENV (\w+)=(\S+)$/gm)].map(([, name = '', value = '']) => [
    name,
    value,
  ]);
  return {
    // The image's own flags come later, and so override these; those that are asked for here come last.
    flags: [...(await limitsInPod(service)), ...args.slice(0, -1), ...askedFlags()],
    environment: Object.fromEntries(variables),
  };
}

/** Flags of Node that whoever runs a benchmark gives its services, such as `--cpu-prof --cpu-prof-dir=DIRECTORY`. */
export const askedFlags = (): readonly string[] =>
  (process.env['SPACE_BENCH_NODE_ARGS'] ?? '').split(' ').filter(Boolean);

/**
 * In a pod, Node 26 gives the old generation half of the memory limit, at least 256 MiB, and each semi-space of the young
 * generation a 128th, rounded up to a power of two and at least 2 MiB. Without a cgroup it would use many times that.
 */
async function limitsInPod(service: string): Promise<string[]> {
  const values = parse(await readFile('charts/space/values.yaml', 'utf8'));
  const [, mebibytes] = /^(\d+)Mi$/.exec(values[service]?.resources.limits.memory) ?? [];
  if (mebibytes === undefined) throw new Error(`the chart has no memory limit in Mi for ${service}`);
  const limit = Number(mebibytes);
  const old = Math.max(256, Math.floor(limit / 2));
  const semi = Math.max(2, 2 ** Math.ceil(Math.log2(limit / 128)));
  return [`--max-old-space-size=${old}`, `--max-semi-space-size=${semi}`];
}
