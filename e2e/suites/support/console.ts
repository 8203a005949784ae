import { Agent, buildConnector, type Dispatcher } from 'undici';
import { Browser, type Shown } from '../../../console/testing/browser.ts';
import { launchChromium } from '../../../console/testing/chromium.ts';
import { type Forwarding, portForward } from '../../space/port-forward.ts';
import { installed, kube, system } from './space.ts';
import { until } from './until.ts';

/** The console, reached through `kubectl port-forward`. */
export interface Forwarded {
  /** Signs in with a token, and returns the page that follows. */
  signIn(token: string): Promise<{ readonly browser: Browser; readonly shown: Shown }>;
  close(): Promise<void>;
}

/** An address that the chart knows. The port on this machine is any free one. */
export const ORIGIN = 'https://localhost:8443';

/** A port of this machine that leads to the console. Of a pod that a rollout replaced nothing is left in the way. */
async function forwardPages(): Promise<Forwarding> {
  await until('the pods of the console to be those of its last rollout', async () => {
    const pods = await kube.list('pods', system, 'platform.space/component=console');
    return pods.every(({ metadata }) => metadata.deletionTimestamp === undefined);
  });
  return portForward(installed, system, 'console', 8443);
}

/** A token to sign in with as this account. */
export async function tokenOf(account: string): Promise<string> {
  const { stdout, stderr } = await kube.run(['-n', installed.namespace, 'create', 'token', account]);
  if (stdout === '') throw new Error(stderr);
  return stdout.trim();
}

export async function forwardConsole(): Promise<Forwarded> {
  const { port, close } = await forwardPages();
  const authority = await kube.get('configmap', 'space-ca', system);
  const connect = buildConnector({ ca: authority?.['data']['ca.crt'], servername: 'localhost' });
  const dispatcher: Dispatcher = new Agent({
    connect: (options, done) => connect({ ...options, hostname: '127.0.0.1', port: String(port) }, done),
  });
  return {
    async signIn(token) {
      const browser = new Browser(ORIGIN, dispatcher);
      const shown = await browser.send(await browser.get('/sign-in'), '/sign-in', { token });
      return { browser, shown };
    },
    async close() {
      await dispatcher.close();
      await close();
    },
  };
}

/**
 * A real browser that reaches the console through the port-forward, and other addresses (`host:port`) through theirs.
 */
export async function browseConsole(others: Readonly<Record<string, Forwarding>> = {}): Promise<{
  readonly browser: Awaited<ReturnType<typeof launchChromium>>;
  readonly origin: string;
  close(): Promise<void>;
}> {
  const found = Object.entries({ [new URL(ORIGIN).host]: await forwardPages(), ...others });
  const rules = found.map(([host, { port }]) => `MAP ${host} 127.0.0.1:${port}`);
  const browser = await launchChromium([`--host-resolver-rules=${rules.join(',')}`]);
  return {
    browser,
    origin: ORIGIN,
    async close() {
      await browser.close();
      for (const [, forwarding] of found) await forwarding.close();
    },
  };
}
