import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';

/** How a pod of ours starts its program. */
export interface PodCommand {
  /** Flags of Node. */
  readonly flags: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Read from the image's Dockerfile and the chart, so that flags of Node are measured as they are shipped. */
export async function podCommand(dockerfile: string, service: string): Promise<PodCommand> {
  const text = await readFile(dockerfile, 'utf8');
  const [, command = '[]'] = /^(?:CMD|ENTRYPOINT) (\[.*\])$/m.exec(text) ?? [];
  const [node, ...args] = JSON.parse(command) as string[];
  const program = args.at(-1) ?? '';
  if (node !== 'node' || !/^(?:\/app\/)?main\.mjs$/.test(program))
    throw new Error(`${dockerfile} does not start main.mjs`);
  const variables = [...text.matchAll(/^ENV (\w+)=(\S+)$/gm)].map(([, name = '', value = '']) => [
    name,
    value,
  ]);
  return {
    flags: [...args.slice(0, -1), `--max-old-space-size=${await heapLimitMiB(service)}`],
    environment: Object.fromEntries(variables),
  };
}

/** In its pod, Node takes half of the memory limit of the chart as that of its heap. Here no cgroup sets one. */
async function heapLimitMiB(service: string): Promise<number> {
  const values = parse(await readFile('charts/space/values.yaml', 'utf8'));
  const [, mebibytes] = /^(\d+)Mi$/.exec(values[service]?.resources.limits.memory) ?? [];
  if (mebibytes === undefined) throw new Error(`the chart has no memory limit in Mi for ${service}`);
  return Math.floor(Number(mebibytes) / 2);
}
