import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A certificate authority of a test, and certificates of hosts that it has made. PEM. */
export interface TestPki {
  readonly authority: string;
  issue(...hosts: string[]): Promise<{ readonly cert: string; readonly key: string }>;
  remove(): Promise<void>;
}

export async function makePki(): Promise<TestPki> {
  const directory = await mkdtemp(join(tmpdir(), 'space-egress-pki-'));
  const at = (name: string) => join(directory, name);
  await writeFile(at('cnf'), '[req]\ndistinguished_name = subject\n[subject]\n');
  const openssl = (...args: string[]) => run('openssl', args, { cwd: directory });
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-config', at('cnf')];
  const caExtensions = [
    '-addext',
    'basicConstraints=critical,CA:TRUE',
    '-addext',
    'keyUsage=critical,keyCertSign',
  ];
  await openssl(
    'req',
    '-x509',
    '-days',
    '30',
    ...curve,
    ...caExtensions,
    '-subj',
    '/CN=test',
    '-keyout',
    'ca.key',
    '-out',
    'ca.crt',
  );
  let issued = 0;
  return {
    authority: await readFile(at('ca.crt'), 'utf8'),
    async issue(...hosts) {
      issued += 1;
      const name = `leaf${issued}`;
      await writeFile(at(`${name}.ext`), `subjectAltName=${hosts.map((host) => `DNS:${host}`).join(',')}\n`);
      await openssl('req', ...curve, '-subj', '/CN=leaf', '-keyout', `${name}.key`, '-out', `${name}.csr`);
      await openssl(
        'x509',
        '-req',
        '-days',
        '30',
        '-in',
        `${name}.csr`,
        '-CA',
        'ca.crt',
        '-CAkey',
        'ca.key',
        '-set_serial',
        String(issued),
        '-extfile',
        `${name}.ext`,
        '-out',
        `${name}.crt`,
      );
      return {
        cert: await readFile(at(`${name}.crt`), 'utf8'),
        key: await readFile(at(`${name}.key`), 'utf8'),
      };
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}
