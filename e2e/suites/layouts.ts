import { isLayout, LAYOUTS, type Layout } from '../../scripts/results/expected.ts';

/** What SPACE_SUITES names. @throws where that is nothing known: the default, taken for it, would pass for what was asked */
export function layoutAsked(): Layout | undefined {
  const asked = process.env['SPACE_SUITES'];
  if (asked === undefined || isLayout(asked)) return asked;
  throw new Error(`SPACE_SUITES=${asked}: known are ${Object.keys(LAYOUTS).join(', ')}`);
}

/** They differ from each other and from that of `npm run up`, so that all of them can run at one time. */
const API_PORTS: Readonly<Record<string, string>> = {
  nodes: '17445',
  'three-nodes': '17446',
  'own-engines': '17447',
};
export const apiPortOf = (layout: string | undefined): string => API_PORTS[layout ?? ''] ?? '17444';
