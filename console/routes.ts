import { capsules } from './pages/capsules.ts';
import { repairs } from './pages/repairs.ts';
import type { Route } from './visit.ts';

/** Every page and every act of the console, for whoever signed in. */
export const ROUTES: readonly Route[] = [repairs, capsules];
