import { ACCESS } from './access.ts';
import { DOORS } from './doors.ts';
import { ENDINGS } from './endings.ts';
import type { Mutant } from './mutant.ts';
import { SERVERS } from './servers.ts';
import { SHARES } from './shares.ts';

export const BY_HAND: readonly Mutant[] = [...ACCESS, ...DOORS, ...ENDINGS, ...SERVERS, ...SHARES];
