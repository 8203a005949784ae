import { describe, expect, it } from 'vitest';
import type { Condition } from '../kubernetes/space.ts';
import { timeline } from './timeline.ts';

const condition = (type: string, at: string, more: Partial<Condition> = {}): Condition => ({
  type,
  status: 'True',
  reason: 'Provisioned',
  message: '',
  lastTransitionTime: at,
  ...more,
});

const metadata = {
  name: 'household',
  uid: 'a-uid',
  resourceVersion: '1',
  annotations: {},
  managedFields: [],
};

/** What its conditions tell of an object's past, a line each. */
function told(conditions: readonly Condition[]): readonly string[] {
  const page = String(timeline({ metadata, conditions, events: [] }));
  return [...page.matchAll(/Conditions? [^<]* became [^<]*\./g)].map(([line]) => line);
}

describe('conditions in the history', () => {
  it('are one line if they became the same, for the same reason, within a minute', () => {
    expect(
      told([
        condition('NamespaceReady', '2026-11-22T20:00:03Z'),
        condition('DatabaseReady', '2026-11-22T20:00:41Z'),
        condition('ObjectStoreReady', '2026-11-22T20:01:02Z'),
        condition('Ready', '2026-11-22T20:00:41Z', { reason: 'Ready' }),
      ]),
    ).toEqual([
      'Condition ObjectStoreReady became True.',
      'Conditions DatabaseReady, NamespaceReady became True.',
      'Condition Ready became True.',
    ]);
  });

  it('are not one line if one of them is a fault', () => {
    const at = '2026-11-22T20:00:03Z';
    const reason = 'BrokerUnreachable';
    expect(
      told([
        condition('Stalled', at, { reason }),
        condition('DatabaseReady', at, { reason }),
        condition('Ready', at, { reason, status: 'False' }),
      ]),
    ).toHaveLength(3);
  });
});

describe('an Event in the history', () => {
  it('that was repeated is at its last time, with the number and the first time', () => {
    const event = (reason: string, minute: string) => ({
      ...{ type: 'Warning', reason, note: `It ${reason}.` },
      eventTime: `2026-11-22T20:${minute}:00.000000Z`,
      metadata: {},
      regarding: {},
    });
    const series = { count: 40, lastObservedTime: '2026-11-22T20:50:00.000000Z' };
    const events = [event('Later', '30'), { ...event('StartFailed', '10'), series }];
    const page = String(timeline({ metadata, conditions: [], events }));
    const text = page.replaceAll(/<[^>]*>/g, '').replaceAll(/\s+/g, ' ');
    expect(text).toMatch(
      /StartFailed 2026-11-22 20:50 UTC ?It StartFailed\. 40 times since 2026-11-22 20:10 UTC\..*Later 2026-11-22 20:30 UTC/,
    );
    expect(text).not.toContain('times since 2026-11-22 20:30');
  });

  it('is not there if it is about an earlier object of the same name', () => {
    const event = (uid: string) => ({
      ...{ type: 'Warning', reason: 'StartFailed', note: `About ${uid}.`, regarding: { uid } },
      ...{ eventTime: '2026-11-22T20:10:00Z', metadata: {} },
    });
    const page = String(timeline({ metadata, conditions: [], events: [event('former'), event('a-uid')] }));
    expect(page).toContain('About a-uid.');
    expect(page).not.toContain('About former.');
  });
});
