import type { Span } from './choose.ts';
import type { PointHeader } from './entry.ts';
import { DamagedPointError } from './errors.ts';
import { readHeader } from './points.ts';
import type { Run } from './run.ts';
import { several } from './several.ts';

export interface ListedPoint extends Span {
  readonly header: PointHeader;
}

export interface DamagedPoint {
  readonly name: string;
  readonly error: DamagedPointError;
}

/** All points, the oldest first, and the names of those whose header cannot be read. */
export interface Listed {
  readonly points: readonly ListedPoint[];
  readonly damaged: readonly DamagedPoint[];
}

export async function listPoints({ space, vault, signal, atOnce }: Run): Promise<Listed> {
  const names = await vault.points(signal);
  const points: ListedPoint[] = [];
  const damaged: DamagedPoint[] = [];
  await several(names, atOnce, signal, async (name, either) => {
    try {
      const { header } = await readHeader(vault, name, space, either);
      const [started, finished] = [new Date(header.started), new Date(header.finished)];
      points.push({ name, started, finished, header });
    } catch (error) {
      if (!(error instanceof DamagedPointError)) throw error;
      damaged.push({ name, error });
    }
  });
  const byName = (a: { readonly name: string }, b: { readonly name: string }) => (a.name < b.name ? -1 : 1);
  return { points: points.sort(byName), damaged: damaged.sort(byName) };
}
