import { readJson, replaceFile } from '../files.ts';
import type { Layout } from './layout.ts';
import { programsKey } from './programs.ts';

/** What a native cluster records about itself between commands. */
export interface NativeRecord {
  readonly name: string;
  readonly apiPort: number;
  /** The programs that it was started with. */
  readonly programs: string;
  /** By default one. */
  readonly nodes?: number;
}

export const recordOf = ({ record }: Layout) => readJson<NativeRecord>(record);

export const writeRecord = ({ record }: Layout, content: NativeRecord): Promise<void> =>
  replaceFile(record, JSON.stringify(content));

export async function ageNote(layout: Layout): Promise<string> {
  return (await recordOf(layout))?.programs === (await programsKey())
    ? 'runs already'
    : 'runs already, in other versions than this checkout has (npm run down, then up, renews it)';
}
