import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Paths of a certificate and its key, PEM. */
interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** A test's CA, in files of `directory`, which signs certificates for names (`DNS:…`, `IP:…`). */
export interface Authority extends Certificate {
  sign(name: string, names: readonly string[]): Certificate;
}

const OPENSSL = 'openssl';
/** An empty configuration, since openssl would otherwise add the distribution's extensions to ours. */
const CONFIG = '[req]\ndistinguished_name = subject\n[subject]\n';

export function makeAuthority(directory: string, name: string): Authority {
  const config = join(directory, 'openssl.cnf');
  writeFileSync(config, CONFIG);
  const make = (file: string, ...more: readonly string[]): Certificate => {
    const made = { cert: join(directory, `${file}.crt`), key: join(directory, `${file}.key`) };
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    const subject = ['-days', '2', '-subj', `/CN=${file}`, '-keyout', made.key, '-out', made.cert];
    execFileSync(OPENSSL, ['req', '-config', config, '-x509', ...curve, ...subject, ...more], {
      stdio: 'ignore',
    });
    return made;
  };
  const extension = (text: string) => ['-addext', text];
  const authority = make(
    name,
    ...extension('basicConstraints=critical,CA:TRUE'),
    ...extension('keyUsage=critical,keyCertSign'),
  );
  return {
    ...authority,
    sign: (file, names) =>
      make(
        file,
        ...['-CA', authority.cert, '-CAkey', authority.key],
        ...extension('basicConstraints=critical,CA:FALSE'),
        ...extension(`subjectAltName=${names.join(',')}`),
      ),
  };
}

/** A certificate with an RSA key that is its own CA, in PEM: some cipher suites need one. */
export function makeRsaCertificate(host: string): { readonly cert: string; readonly key: string } {
  const directory = mkdtempSync(join(tmpdir(), 'space-rsa-'));
  try {
    const [cert, key] = [join(directory, 'cert'), join(directory, 'key')];
    const names = ['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`];
    const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...names, '-keyout', key, '-out', cert];
    execFileSync(OPENSSL, request, { stdio: 'ignore' });
    return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** A CA in a directory of its own, which issues certificates for hosts; all in PEM. */
export interface TestPki {
  readonly authority: string;
  issue(...hosts: string[]): Promise<{ readonly cert: string; readonly key: string }>;
  remove(): Promise<void>;
}

export async function makePki(): Promise<TestPki> {
  const directory = await mkdtemp(join(tmpdir(), 'space-pki-'));
  const authority = makeAuthority(directory, 'ca');
  let issued = 0;
  return {
    authority: await readFile(authority.cert, 'utf8'),
    async issue(...hosts) {
      issued += 1;
      const { cert, key } = authority.sign(
        `leaf${issued}`,
        hosts.map((host) => `DNS:${host}`),
      );
      return { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') };
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}
