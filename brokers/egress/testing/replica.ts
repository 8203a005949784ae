import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { createLogger, newToken } from '@space/broker-kit';
import type { PolicyPut } from '@space/contracts/egress';
import { makePki } from '../../../testing/certificates.ts';
import { readConfig } from '../config.ts';
import { startService } from '../service.ts';
import { basic, digest } from './gateway.ts';
import { startUpstream, type TestUpstream } from './upstream.ts';

/** Whole replicas, started from an environment as in a pod, and the one host that they know. */
export interface Replicas {
  readonly principal: string;
  readonly upstream: TestUpstream;
  readonly environment: Readonly<Record<string, string>>;
  /** With these settings beside those of the environment, and one Assistant's policy. */
  start(settings: Readonly<Record<string, string>>): ReturnType<typeof startService>;
  permit(controlPort: number, changes?: Partial<PolicyPut>): Promise<void>;
  /** A tunnel to the host, in which TLS has been spoken. */
  tunnel(dataPort: number): Promise<Socket>;
  close(): Promise<void>;
}

export async function openReplicas(): Promise<Replicas> {
  const host = 'api.bank.org';
  const token = newToken('prv').reveal();
  const principal = newToken('egr').reveal();
  const directory = mkdtempSync(join(tmpdir(), 'space-egress-'));
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const pki = await makePki();
  const upstream = await startUpstream(await pki.issue(host));
  const key = Buffer.from(digest('key'), 'hex').toString('base64url');
  const environment = {
    SPACE_NAME: 'test',
    LISTEN_HOST: '127.0.0.1',
    DATA_PORT: '0',
    CONTROL_PORT: '0',
    METRICS_PORT: '0',
    PROVISIONER_TOKEN_FILE: file('token', token),
    CUSTODY_KEY_FILE: file('ring', JSON.stringify({ primary: 'k1', keys: { k1: key } })),
    UPSTREAM_CA_FILE: file('ca', pki.authority),
    FIXED_HOSTS: `${host}=127.0.0.1:${upstream.port}`,
  };

  async function post(port: number, path: string, body: object): Promise<Record<string, unknown>> {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    return (await response.json()) as Record<string, unknown>;
  }

  async function permit(controlPort: number, changes: Partial<PolicyPut> = {}): Promise<void> {
    const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' };
    const definition = { host, routes: [{ method: 'GET', path: '/v1' }], header: 'X-Api-Key' };
    const value = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
    const sealed = await post(controlPort, '/v1/inputs/seal', { ...about, input: 'bank', definition, value });
    await post(controlPort, '/v1/policies/put', {
      ...about,
      generation: 1,
      revision: digest('revision'),
      principals: [digest(principal)],
      addresses: ['127.0.0.1'],
      allowed_hosts: [host],
      stored_inputs: { bank: { definition, envelope: sealed['envelope'] } },
      ...changes,
    });
  }

  return {
    principal,
    upstream,
    environment,
    permit,
    start: async (settings) => {
      const log = createLogger({ service: 'egress', level: 'silent' });
      const service = await startService(readConfig({ ...environment, ...settings }), log);
      await permit(service.controlPort);
      return service;
    },
    tunnel: async (dataPort) => {
      const raw = connect(dataPort, '127.0.0.1').on('error', () => undefined);
      raw.write(`CONNECT ${host}:443 HTTP/1.1\r\nproxy-authorization: ${basic(principal)}\r\n\r\n`);
      await once(raw, 'data');
      const secure = connectTls({ socket: raw, servername: host, ca: pki.authority });
      await once(
        secure.on('error', () => undefined),
        'secureConnect',
      );
      return raw;
    },
    close: async () => {
      await upstream.close();
      pki.remove();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
