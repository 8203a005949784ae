import { type Definition, definitionDigest } from '@space/manifests';
import { describe, expect, test } from 'vitest';
import { decideInput, type InputVerdict, type Source } from './decide.ts';
import type { SealedInput } from './sealed.ts';

const definition: Definition = {
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/accounts' }],
  header: 'Authorization',
};
const wanted = definitionDigest(definition);
const other = definitionDigest({ ...definition, host: 'api.other.org' });

const HELD = { envelope: 'e', definition: other, source: 'u/1' };
const BOUND = { ...HELD, definition: wanted };
const REFLECTED = { ...BOUND, reflected: true };
const LEFT_OUT = { ...BOUND, envelope: '', withdrawn: true };
const source = (changes: Partial<Source> = {}): Source => ({
  version: 'u/1',
  entry: undefined,
  changed: false,
  ...changes,
});
const written = { version: 'u/2' };

type Row = readonly [string, SealedInput | undefined, Source | undefined, InputVerdict];
const rows: readonly Row[] = [
  ['nobody has entered', undefined, undefined, 'missing'],
  ['was entered and not sealed yet', undefined, source(), 'seal'],
  ['was entered for this and not sealed yet', undefined, source({ entry: `${wanted} 1` }), 'seal'],
  ['was entered for another', undefined, source({ entry: `${other} 1` }), 'reentry'],
  ['says nonsense of what it is for', undefined, source({ entry: 'yes' }), 'reentry'],
  ['says nothing of what it is for', undefined, source({ entry: '' }), 'reentry'],

  ['is sealed', BOUND, source(), 'bound'],
  ['is sealed, and its Secret has gone', BOUND, undefined, 'bound'],
  ['was written since', BOUND, source(written), 'seal'],
  ['was entered for this since', BOUND, source({ ...written, entry: wanted }), 'seal'],
  [
    'was entered for this once more',
    { ...BOUND, entry: wanted },
    source({ ...written, entry: `${wanted} again` }),
    'seal',
  ],
  [
    'was entered for another since, and is sealed for this',
    BOUND,
    source({ ...written, entry: other }),
    'bound',
  ],

  ['is sealed for another', HELD, source(), 'reentry'],
  ['is sealed for another, and its Secret has gone', HELD, undefined, 'reentry'],
  ['is the same in a Secret that was written since', HELD, source(written), 'reentry'],
  ['is the same in a Secret that was made anew', HELD, source({ version: 'v/2' }), 'reentry'],
  ['is another than the one that is sealed for another', HELD, source({ ...written, changed: true }), 'seal'],
  ['is the same, and was entered for this', HELD, source({ ...written, entry: wanted }), 'seal'],
  [
    'is another, which was entered for another',
    HELD,
    source({ ...written, entry: `${other} 2`, changed: true }),
    'reentry',
  ],

  ['was left out for a while', LEFT_OUT, source(), 'seal'],
  ['was left out for a while, and its Secret has gone', LEFT_OUT, undefined, 'missing'],
  ['was left out, and entered for another since', LEFT_OUT, source({ entry: other }), 'reentry'],
  ['was left out when it was for another', { ...LEFT_OUT, definition: other }, source(), 'reentry'],
  [
    'was left out when it was for another, and entered for this since',
    { ...LEFT_OUT, definition: other },
    source({ ...written, entry: wanted }),
    'seal',
  ],
  [
    'was left out when it was for another, and its Secret has gone',
    { ...LEFT_OUT, definition: other },
    undefined,
    'missing',
  ],

  ['came back from its host', REFLECTED, source(), 'reflected'],
  ['came back, and its Secret has gone', REFLECTED, undefined, 'reflected'],
  ['came back, and its Secret was written since', REFLECTED, source(written), 'reflected'],
  ['is another than the one that came back', REFLECTED, source({ ...written, changed: true }), 'seal'],
  [
    'came back, and was entered for another since',
    REFLECTED,
    source({ ...written, entry: other, changed: true }),
    'reflected',
  ],
  [
    'came back, and was entered again',
    { ...REFLECTED, entry: `${wanted} 1` },
    source({ ...written, entry: `${wanted} 2` }),
    'seal',
  ],
  [
    'came back, and nobody has entered it again',
    { ...REFLECTED, entry: `${wanted} 1` },
    source({ ...written, entry: `${wanted} 1` }),
    'reflected',
  ],
  [
    'came back, and does not say any more what it is for',
    { ...REFLECTED, entry: `${wanted} 1` },
    source(written),
    'reflected',
  ],
  [
    'came back, and is another by now',
    { ...REFLECTED, entry: `${wanted} 1` },
    source({ ...written, entry: `${wanted} 1`, changed: true }),
    'seal',
  ],
  [
    'came back from the host of another',
    { ...HELD, reflected: true },
    source({ ...written, entry: wanted }),
    'seal',
  ],
];

describe('a value that', () => {
  test.each(rows)('%s', (_, sealed, found, verdict) => {
    expect(decideInput(definition, sealed, found)).toBe(verdict);
  });
});
