import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster } from '../../../../e2e/cluster/index.ts';
import { finish, type Kube } from '../../../../e2e/space/kube.ts';
import { eventually } from '../../../eventually.ts';
import type { SpaceView, Tenant } from '../world.ts';

/** The installed Space that is administered. */
export interface InstalledSpace {
  readonly cluster: Cluster;
  readonly kube: Kube;
  readonly space: SpaceView;
  readonly tenant: Tenant;
}

const SETTLE_MS = 15 * 60_000;

/** Waits for a condition that may take minutes, since parts are killed meanwhile. */
export const settled = (what: string, is: () => Promise<boolean>) =>
  eventually(
    async () => {
      await pause(500);
      return is();
    },
    { what, within: SETTLE_MS },
  );

/** Returns the output of a program; the error contains the end of its output. */
export async function printed(program: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await finish(program, args);
  if (code !== 0) throw new Error((stderr || stdout).trim().slice(-2_000));
  return stdout.trim();
}
