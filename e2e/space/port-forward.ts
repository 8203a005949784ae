import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A port of this machine that `kubectl port-forward` forwards to a Service. */
export interface Forwarding {
  readonly port: number;
  close(): Promise<void>;
}

export async function portForward(
  { kubectl, kubeconfig }: { readonly kubectl: string; readonly kubeconfig: string },
  namespace: string,
  service: string,
  port: number,
): Promise<Forwarding> {
  const args = [
    '--kubeconfig',
    kubeconfig,
    '-n',
    namespace,
    'port-forward',
    `service/${service}`,
    `:${port}`,
  ];
  const child = spawn(kubectl, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const found = await new Promise<string>((resolve, reject) => {
    child
      .on('error', reject)
      .on('close', () => reject(new Error(`kubectl port-forward to service/${service} ended`)));
    createInterface(child.stdout).on('line', (line) => {
      const [, port] = /127\.0\.0\.1:(\d+) ->/.exec(line) ?? [];
      if (port !== undefined) resolve(port);
    });
  });
  return {
    port: Number(found),
    async close() {
      const closed = once(child, 'close');
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill();
      await closed;
    },
  };
}
