import { ClusterProblem } from '../problem.ts';
import { ProgramFailed, run } from '../run.ts';

/** Two that install at once take turns. */
const WAIT = ['-o', 'DPkg::Lock::Timeout=600'];

/** Has apt install Debian packages; refreshes its lists only when it does not know them. */
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
