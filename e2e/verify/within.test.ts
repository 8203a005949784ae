/**
 * The programs that run inside an Assistant, with real servers: what is allowed succeeds, and what is not is reported
 * as refused.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { newToken } from '@space/broker-kit';
import { describe, expect, it } from 'vitest';
import { openFixture } from '../../brokers/db/testing/postgres.ts';
import { makeGateway } from '../../brokers/egress/testing/gateway.ts';
import { CONNECT, DATABASE, USE_INPUT } from './within.ts';

const run = promisify(execFile);
/** Runs a program as in a container: with only these variables. */
async function within(
  program: string,
  env: Record<string, string>,
  ...args: readonly string[]
): Promise<string> {
  const { stdout } = await run(process.execPath, ['-e', program, ...args], { env });
  return stdout.trim();
}

describe('the program for PostgreSQL', () => {
  it('logs in to its own database, and is refused another one and with another password', async () => {
    const fixture = await openFixture();
    try {
      const principal = newToken('dbp').reveal();
      await fixture.broker.provisioner.provision('one', principal);
      const capsule = fixture.broker.as(principal);
      const [own, other]: string[] = await Promise.all(
        ['a', 'b'].map(async (id) => (await capsule.create('one', id)).json.database_url),
      );
      const env = { DATABASE_URL: `${own}` };
      expect(await within(DATABASE, env, '')).toBe('ready');
      expect(await within(DATABASE, env, new URL(`${other}`).pathname.slice(1))).toBe('42501');
      const wrong = new URL(`${own}`);
      wrong.password = 'x';
      expect(await within(DATABASE, { DATABASE_URL: wrong.href }, '')).toBe('28P01');
    } finally {
      await fixture.close();
    }
  });
});

/** Resolves every name to this machine, as the host alias of a pod would. */
const AT_LOOPBACK = `
import dns from 'node:dns';
dns.lookup = (host, options, done) => done(null, options.all ? [{ address: '127.0.0.1', family: 4 }] : '127.0.0.1', 4);
`;

describe('the program for the gateway', () => {
  it('reports why a tunnel was refused: the host is not allowed, or there is no credential', async () => {
    const gateway = await makeGateway({});
    try {
      await gateway.put({ allowed_hosts: ['verify.space-probe.org'] });
      const env = { HTTPS_PROXY: `http://egr:${gateway.principal}@127.0.0.1:${gateway.port}` };
      expect(await within(CONNECT, env, 'example.com', 'own')).toBe('403');
      expect(await within(CONNECT, env, '169.254.169.254', 'own')).toBe('403');
      expect(await within(CONNECT, env, 'example.com', 'none')).toBe('407');
    } finally {
      await gateway.close();
    }
  });

  it('reports why a stored input was not used: no credential, another’s credential, or another route', async () => {
    const gateway = await makeGateway({});
    try {
      const routes = [{ method: 'GET', path: '/v1/nothing' }] as const;
      await gateway.put({}, { probe: { host: 'vault.space-probe.org', routes, header: 'X-Api-Key' } });
      const env = {
        INPUT_PROBE_URL: `http://assistant-egress:${gateway.port}/i/probe`,
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(AT_LOOPBACK)}`,
        EGRESS_TOKEN: gateway.principal,
      };
      const use = (path: string, whose: string) => within(USE_INPUT, env, 'probe', path, whose);
      expect(await use('/v1/nothing', 'none')).toBe('forbidden');
      expect(await use('/v1/nothing', newToken('egr').reveal())).toBe('forbidden');
      expect(await use('/v1/other', 'own')).toBe('route_denied');
      // On the input's own route the request is accepted, and fails only because its host does not exist.
      expect(await use('/v1/nothing', 'own')).toBe('name_unresolved');
    } finally {
      await gateway.close();
    }
  });
});
