/** The chart's S3 server, started by the command of its container, while its mounted certificate changes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeAuthority } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { freePort } from '../../testing/ports.ts';
import { built } from '../cluster/tools.ts';
import { podsIn, startHelm } from './testing/rendered.ts';

let directory: string;
let port: number;
let server: ChildProcess;

const authority = (name: string) => makeAuthority(directory, name);

/** Replaces the mounted certificate. */
function mount(name: string): void {
  const { cert, key } = authority(`${name}-authority`).sign(name, ['DNS:s3']);
  copyFileSync(key, join(directory, 'tls', 'tls.key'));
  copyFileSync(cert, join(directory, 'tls', 'tls.crt'));
}

/** The subject of the certificate that a new connection receives. */
const shown = () =>
  new Promise<string>((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, servername: 's3', rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on('error', reject);
  });

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-s3-certificate-'));
  await Promise.all(['tls', 'data'].map((name) => mkdir(join(directory, name))));
  mount('first');
  port = await freePort();
  const helm = await startHelm();
  const pod = podsIn(await helm.render()).get('s3');
  await helm.close();
  // Kubernetes passes a command to a container with one $ for two, and runs it as the container's first process.
  const here = (text: string) =>
    text
      .replaceAll('$$', () => '$')
      .replaceAll('/etc/space/tls', join(directory, 'tls'))
      .replace(/^:7070$/, `127.0.0.1:${port}`)
      .replace(/^\/data$/, join(directory, 'data'));
  const { command, args } = pod.containers[0];
  const contained = [
    '--pid',
    '--fork',
    '--kill-child',
    ...(process.getuid?.() === 0 ? [] : ['--map-root-user']),
  ];
  const programs = await built('versitygw', join(directory, 'build.log'));
  server = spawn('unshare', [...contained, '--', ...[...command, ...args].map(here)], {
    stdio: 'ignore',
    // It gets a process group of its own, which includes the process that watches the certificate.
    detached: true,
    cwd: directory,
    env: {
      PATH: `${programs}:${process.env['PATH']}`,
      TMPDIR: directory,
      ROOT_ACCESS_KEY: 'TEST',
      ROOT_SECRET_KEY: 'a-secret-of-the-test',
    },
  });
});
afterAll(async () => {
  if (server?.pid !== undefined && server.exitCode === null) process.kill(-server.pid, 'SIGKILL');
  await rm(directory, { recursive: true, force: true });
});

it('shows a renewed certificate to new connections, and is not restarted for it', async () => {
  await eventually(async () => (await shown()) === 'first', {
    what: 'the server shows its first certificate',
  });
  mount('second');
  await eventually(async () => (await shown()) === 'second', { what: 'the server shows the renewed one' });
  expect(server.exitCode).toBeNull();
});
