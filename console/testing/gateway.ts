import { hash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger, newToken } from '@space/broker-kit';
import type { About, PolicyPut } from '@space/contracts/egress';
import { readConfig } from '../../brokers/egress/config.ts';
import { startService } from '../../brokers/egress/service.ts';

/** A replica of the egress gateway, and an Assistant that calls through it. */
export interface TestReplica {
  /** The settings of a console for it. */
  readonly environment: Readonly<Record<string, string>>;
  /** Lets the Assistant request a tunnel to each of these, with a policy for `allowed`. */
  call(about: About, allowed: readonly string[], targets: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export async function startReplica(): Promise<TestReplica> {
  const directory = mkdtempSync(join(tmpdir(), 'space-replica-'));
  const write = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const [provisioner, observer] = [newToken('prv').reveal(), newToken('obs').reveal()];
  const observerFile = write('observer', observer);
  const config = readConfig({
    SPACE_NAME: 'home',
    LISTEN_HOST: '127.0.0.1',
    DATA_PORT: '0',
    CONTROL_PORT: '0',
    METRICS_PORT: '0',
    PROVISIONER_TOKEN_FILE: write('provisioner', provisioner),
    OBSERVER_TOKEN_FILE: observerFile,
    CUSTODY_KEY_FILE: write(
      'ring',
      JSON.stringify({ primary: 'k1', keys: { k1: randomBytes(32).toString('base64url') } }),
    ),
    FIXED_HOSTS: '',
  });
  const service = await startService(config, createLogger({ service: 'egress', level: 'fatal' }));
  const url = `http://127.0.0.1:${service.controlPort}`;
  let generation = 0;

  async function put(about: About, allowed: readonly string[], principal: string): Promise<void> {
    generation += 1;
    const policy: PolicyPut = {
      ...about,
      generation,
      revision: '0'.repeat(64),
      principals: [hash('sha256', principal, 'hex')],
      addresses: ['127.0.0.1'],
      allowed_hosts: allowed,
      stored_inputs: {},
    };
    const answer = await fetch(`${url}/v1/policies/put`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${provisioner}` },
      body: JSON.stringify(policy),
    });
    if (answer.status !== 200) throw new Error(await answer.text());
  }

  return {
    environment: { EGRESS_URL: url, EGRESS_OBSERVER_TOKEN_FILE: observerFile },
    async call(about, allowed, targets) {
      const principal = newToken('egr');
      await put(about, allowed, principal.reveal());
      const credential = Buffer.from(`egr:${principal.reveal()}`).toString('base64');
      for (const path of targets) {
        const headers = { 'proxy-authorization': `Basic ${credential}` };
        const asked = request({ port: service.dataPort, method: 'CONNECT', path, headers }).end();
        const [, socket] = await once(asked, 'connect');
        socket.destroy();
      }
    },
    async close() {
      await service.stop();
      rmSync(directory, { recursive: true });
    },
  };
}
