import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { askedFlags } from '../../testing/installed/image.ts';
import { type Program, watchProcess } from '../objectstore/program.ts';
import { HOST, VALUE } from './fixture.ts';

/** This gateway in a process of its own, assembled here so that a part of it can be left out. */
export interface Gateway extends Pick<Program, 'cpuSeconds' | 'stop'> {
  readonly port: number;
  /** The principal of the only caller. */
  readonly principal: string;
}

export async function startGateway(options: {
  /** The port of the upstream. */
  readonly port: number;
  /** File with the upstream's authority. */
  readonly authority: string;
  readonly unscrubbed?: true;
  /** The value of the stored input, unless it is the fixture's. */
  readonly value?: string;
}): Promise<Gateway> {
  const program = join(import.meta.dirname, 'gateway-process.ts');
  const args = [
    HOST,
    String(options.port),
    options.authority,
    options.value ?? VALUE,
    options.unscrubbed ? 'unscrubbed' : '',
  ];
  const child = spawn(process.execPath, [...askedFlags(), program, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  return {
    ...(JSON.parse(line) as { readonly port: number; readonly principal: string }),
    cpuSeconds: watchProcess(child.pid ?? 0).cpuSeconds,
    stop: async () => {
      const gone = once(child, 'exit');
      child.stdin.end();
      await gone;
    },
  };
}
