import { chmodSync, cpSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../../e2e/cluster/run.ts';
import { built } from '../../../e2e/cluster/tools.ts';
import { fromDebian, type Installed } from '../../installed/debian.ts';

export interface Programs {
  /** The directory with postgres, initdb, psql and the other programs. */
  readonly bin: string;
  readonly major: string;
  readonly env: Readonly<Record<string, string>>;
  readonly patroni: { readonly script: string; readonly version: string };
  readonly haproxy: Installed;
  readonly etcd: Installed;
}

/**
 * PostgreSQL, Patroni and HAProxy of this Debian. The first two run as another user than root, who may be unable to read the
 * cache, so they are copied into a directory of the run.
 */
export async function findPrograms(directory: string): Promise<Programs> {
  const depends = await run(['apt-cache', 'depends', 'postgresql']);
  const [, major] = /Depends: postgresql-(\d+)/.exec(depends) ?? [];
  if (major === undefined) throw new Error('apt has no package postgresql: this soak test needs Debian');
  const postgres = await fromDebian(`postgresql-${major}`, '');
  const patroni = await fromDebian('patroni', '');
  const haproxy = await fromDebian('haproxy', 'usr/sbin/haproxy');
  const etcd = await built('kubernetes', join(directory, 'build.log'));
  const tree = join(directory, 'programs');
  for (const { program } of [postgres, patroni])
    cpSync(program, tree, { recursive: true, verbatimSymlinks: true });
  chmodSync(tree, 0o755);
  const env = {
    LD_LIBRARY_PATH: readdirSync(join(tree, 'usr/lib'))
      .map((name) => join(tree, 'usr/lib', name))
      .join(':'),
    PYTHONPATH: join(tree, 'usr/lib/python3/dist-packages'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const script = join(tree, 'usr/bin/patroni');
  const said = await run(['/usr/bin/python3', script, '--version'], { env: { ...process.env, ...env } });
  return {
    bin: join(tree, 'usr/lib/postgresql', major, 'bin'),
    major,
    env,
    patroni: { script, version: said.trim().replace(/^patroni /, '') },
    haproxy,
    etcd: { program: join(etcd, 'etcd'), env: {} },
  };
}
