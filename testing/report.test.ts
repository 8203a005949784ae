import { describe, expect, it } from 'vitest';
import { quantile, renderTable } from './report.ts';

describe('quantile', () => {
  it('takes the nearest rank and needs no sorted input', () => {
    const samples = [5, 1, 4, 2, 3];
    expect(quantile(samples, 0.5)).toBe(3);
    expect(quantile(samples, 0.99)).toBe(5);
    expect(quantile(samples, 0)).toBe(1);
  });

  it('refuses an empty sample', () => {
    expect(() => quantile([], 0.5)).toThrow('no samples');
  });
});

describe('renderTable', () => {
  it('aligns words left and numbers right', () => {
    const table = renderTable([
      { what: 'warm', ms: 6.5 },
      { what: 'cold start', ms: 1234 },
    ]);
    expect(table).toBe(
      ['what          ms', '──────────  ────', 'warm         6.5', 'cold start  1234'].join('\n'),
    );
  });

  it('rounds to four digits, and leaves out no zero before the point', () => {
    const table = renderTable([{ rate: 2790.4 }, { rate: 0.50001 }, { rate: 12_000.7 }]);
    expect(table.split('\n').map((line) => line.trim())).toEqual(['rate', '─────', '2790', '0.5', '12000']);
  });
});
