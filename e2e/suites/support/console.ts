import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import { Browser, type Shown } from '../../../console/testing/browser.ts';
import { installed, kube, system } from './space.ts';

/** The console as `kubectl port-forward` leads there. */
export interface Forwarded {
  /** Signs in with a token, and shows what comes then. */
  signIn(token: string): Promise<{ readonly browser: Browser; readonly shown: Shown }>;
  close(): Promise<void>;
}

/** An address that the chart knows; the port is whichever is free on this machine. */
const ORIGIN = 'https://localhost:8443';

export async function forwardConsole(): Promise<Forwarded> {
  const args = [
    '--kubeconfig',
    installed.kubeconfig,
    '-n',
    system,
    'port-forward',
    'service/console',
    ':8443',
  ];
  const child = spawn(installed.kubectl, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await new Promise<string>((resolve, reject) => {
    child.on('error', reject).on('close', () => reject(new Error('kubectl port-forward ended')));
    createInterface(child.stdout).on('line', (line) => {
      const [, found] = /127\.0\.0\.1:(\d+) ->/.exec(line) ?? [];
      if (found !== undefined) resolve(found);
    });
  });
  const authority = await kube.get('configmap', 'space-ca', system);
  const connect = buildConnector({ ca: authority?.['data']['ca.crt'], servername: 'localhost' });
  const dispatcher: Dispatcher = new Agent({
    connect: (options, done) => connect({ ...options, hostname: '127.0.0.1', port }, done),
  });
  return {
    async signIn(token) {
      const browser = new Browser(ORIGIN, dispatcher);
      const shown = await browser.send(await browser.get('/sign-in'), '/sign-in', { token });
      return { browser, shown };
    },
    async close() {
      await dispatcher.close();
      child.kill();
      if (child.exitCode === null) await once(child, 'close');
    },
  };
}
