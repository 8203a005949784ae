import { describe, expect, it } from 'vitest';
import { explore } from '../testing/explore.ts';
import { BOUNDS, SEEDED } from './testing/explored/bounds.ts';
import { deletionSpace } from './testing/explored/machine.ts';

/** `npm run soak -- model-deletion` goes through more than ten million states. */
const MOST = 200_000;

describe('every interleaving of a deletion within small bounds', () => {
  it.each(Object.entries(BOUNDS))(
    '%s: dropped data is never accessible, kept data is never dropped, and every deletion ends',
    (_name, bounds) => {
      const { wrong, exhausted } = explore(deletionSpace(bounds), MOST);
      expect({ wrong, exhausted }).toEqual({ wrong: undefined, exhausted: true });
    },
  );

  it.each(SEEDED)('shows a Space that %s', (defect, bounds) => {
    expect(explore(deletionSpace(BOUNDS[bounds], defect), MOST).wrong?.trace.length).toBeGreaterThan(0);
  });
});
