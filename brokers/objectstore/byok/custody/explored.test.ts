import { describe, expect, it } from 'vitest';
import { explore } from '../../../../testing/explore.ts';
import { BOUNDS, DEFECTS } from './testing/explored/bounds.ts';
import { custodySpace } from './testing/explored/machine.ts';

/** `npm run soak -- model-custody` goes through more than ten million states. Ways to defects are short. */
const MOST = 40_000;

describe('every interleaving within small bounds', () => {
  it.each(Object.entries(BOUNDS))(
    '%s: no answer is older than a previous one or given twice, and no alarm is false',
    (_name, bounds) => {
      const { wrong, exhausted } = explore(custodySpace(bounds), 200_000);
      expect({ wrong, exhausted }).toEqual({ wrong: undefined, exhausted: true });
    },
  );

  it.each(DEFECTS)('shows a custody that %s', (defect) => {
    const found = Object.values(BOUNDS).some(
      (bounds) => explore(custodySpace(bounds, defect), MOST).wrong !== undefined,
    );
    expect(found).toBe(true);
  });
});
