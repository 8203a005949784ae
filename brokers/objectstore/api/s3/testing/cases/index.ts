import { ABSENT } from './absent.ts';
import { BODIES } from './bodies.ts';
import type { Case } from './case.ts';
import { COPIES } from './copies.ts';
import { HARMLESS } from './harmless.ts';
import { LISTS } from './lists.ts';
import { MARKERS } from './markers.ts';
import { NAMES } from './names.ts';
import { READS } from './reads.ts';
import { UPLOADS } from './uploads.ts';

/** The table, with each case's own prefix. */
export const CASES: readonly (Case & { readonly home: string })[] = [
  ...NAMES,
  ...BODIES,
  ...READS,
  ...COPIES,
  ...LISTS,
  ...UPLOADS,
  ...MARKERS,
  ...HARMLESS,
  ...ABSENT,
].map((one, i) => ({ ...one, home: `case-${String(i).padStart(3, '0')}` }));
