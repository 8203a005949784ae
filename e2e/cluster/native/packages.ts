import { ClusterProblem } from '../problem.ts';
import { ProgramFailed, run } from '../run.ts';

/** Lets two installations wait for each other. */
const WAIT = ['-o', 'DPkg::Lock::Timeout=600'];

/** Installs Debian packages with apt; refreshes its lists only if they do not contain them. */
export async function installPackages(packages: readonly string[], log: string): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const install = () =>
    run(['apt-get', 'install', '--yes', '--no-install-recommends', ...WAIT, ...packages], { log, env });
  try {
    await install().catch(async () => {
      await run(['apt-get', 'update'], { log, env });
      await install();
    });
  } catch (cause) {
    if (!(cause instanceof ProgramFailed)) throw cause;
    throw new ClusterProblem(
      `apt could not install ${packages.join(', ')}.`,
      `Install them by hand (apt-get install ${packages.join(' ')}) and run the command again.`,
      { cause },
    );
  }
}
