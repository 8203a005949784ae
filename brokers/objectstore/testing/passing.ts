import type { Passing } from '../upstream/relay.ts';
import { atOnce } from '../upstream/sinks.ts';

/** Nobody else has requests. */
export const ALONE: Passing = { isShared: () => false, inTurn: atOnce };
