import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { OutsideConnection, OutsideHost, OutsideOptions, OutsideRequest } from '../model.ts';
import type { Serving } from './server.ts';

/** An address in a reserved range (TEST-NET-3), and the one of the clouds' metadata services. */
export const ADDRESSES = ['203.0.113.10', '203.0.113.20'] as const;
export const METADATA = '169.254.169.254';
export const SERVER = fileURLToPath(new URL('./server.ts', import.meta.url));

export function servingOf({ ports, udp = [], tls, answers }: OutsideOptions): Serving {
  const at = (numbers: readonly number[]) =>
    ADDRESSES.flatMap((address) => numbers.map((port) => ({ address, port })));
  return {
    tcp: [...at(ports), { address: METADATA, port: 80 }],
    udp: at(udp),
    tls: tls ?? null,
    answers: answers ?? {},
  };
}

interface Serve {
  /** Starts the server, where those addresses are, with SPACE_OUTSIDE in its environment; ends with its input. */
  readonly command: readonly [string, ...string[]];
  readonly env?: NodeJS.ProcessEnv;
  readonly tearDown: () => Promise<unknown>;
}

/** Its server accepts connections, answers HTTP with the caller's address, and reports every connection. */
export async function serve({ command: [program, ...args], env, tearDown }: Serve): Promise<OutsideHost> {
  const child = spawn(program, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  const seen: OutsideConnection[] = [];
  const asked: OutsideRequest[] = [];
  const marks: (() => void)[] = [];
  const listening = Promise.withResolvers<void>();
  child.on('error', listening.reject);
  child.on('exit', (code) => listening.reject(new Error(`the outside host ended: exit ${code}`)));
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'listening') listening.resolve();
    else if (line === 'mark') marks.shift()?.();
    else {
      const told = JSON.parse(line) as OutsideConnection | OutsideRequest;
      if ('method' in told) asked.push(told);
      else seen.push(told);
    }
  });
  await listening.promise;
  /** It reports a connection before it answers it, and returns a mark after everything that it has reported. */
  const allTold = () =>
    new Promise<void>((resolve) => {
      marks.push(resolve);
      child.stdin.write('mark\n');
    });
  return {
    addresses: ADDRESSES,
    metadata: METADATA,
    async connections() {
      await allTold();
      return [...seen];
    },
    async requests() {
      await allTold();
      return [...asked];
    },
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.stdin.end(); // the server ends with its input
      if (child.exitCode === null) await ended;
      await tearDown();
    },
  };
}
