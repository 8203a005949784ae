import { describe, expect, it } from 'vitest';
import type { Party } from './arrows.ts';
import { compare, expectedOf, type Seen, type Source, type Target, targetKey } from './matrix.ts';

const source = (name: string, party: Party, address: string, more: Partial<Source> = {}): Source => ({
  name,
  party,
  addresses: [address],
  blocks: [],
  ...more,
});
const target = (to: Target['to'], port: number, address: string, more: Partial<Target> = {}): Target => ({
  name: `${to} ${port}`,
  to,
  protocol: 'tcp',
  address,
  port,
  ends: [{ address, port }],
  listens: true,
  ...more,
});

const inOne = source('Assistant of one', 'assistant', '10.0.0.1');
const broker = source('db-broker', 'db-broker', '10.0.0.2');
const free = source('stranger', 'stranger', '10.0.0.3');
const apiServer = {
  cidr: '192.0.2.0/24',
  except: ['192.0.2.9/32'],
  ports: [{ protocol: 'tcp', port: 6443 }],
} as const;
const operator = source('operator', 'operator', '10.0.0.4', { blocks: [apiServer] });

describe('what the arrows say', () => {
  it.each([
    ['an Assistant reaches PostgreSQL', inOne, target('postgres', 5432, '10.0.1.1'), 'open'],
    [
      'a Service is where it ends, whatever its own port is',
      inOne,
      target('egress', 80, '10.96.0.1', { ends: [{ address: '10.0.1.2', port: 3128 }] }),
      'open',
    ],
    ['but not over UDP', inOne, target('postgres', 5432, '10.0.1.1', { protocol: 'udp' }), 'closed'],
    ['nor another Assistant', inOne, target('assistant', 8080, '10.0.1.3'), 'closed'],
    ['nor any DNS', inOne, target('dns', 53, '10.96.0.10', { protocol: 'udp' }), 'closed'],
    ['a broker asks DNS', broker, target('dns', 53, '10.96.0.10', { protocol: 'udp' }), 'open'],
    ['and no address', broker, target('API server', 6443, '192.0.2.1'), 'closed'],
    [
      'the operator reaches the addresses that its policy names',
      operator,
      target('API server', 6443, '192.0.2.1'),
      'open',
    ],
    ['but for those that it leaves out', operator, target('node', 6443, '192.0.2.9'), 'closed'],
    ['and other ports', operator, target('node', 10250, '192.0.2.1'), 'closed'],
    ['what has no walls is not the Space’s to judge', free, target('node', 10250, '192.0.2.1'), 'theirs'],
    ['but what it must not reach of the Space is', free, target('db-broker', 8080, '10.0.0.2'), 'closed'],
    [
      'a client may go to an Assistant with everything, which only over TCP somebody need answer',
      source('client', 'client', '10.0.0.5'),
      target('assistant', 8080, '10.0.1.3', { protocol: 'udp' }),
      'theirs',
    ],
    ['a pod is not asked about itself', broker, target('db-broker', 8080, '10.0.0.2'), undefined],
  ] as const)('%s', (_, from, to, expected) => {
    expect(expectedOf(from, to)).toBe(expected);
  });
});

describe('a cell', () => {
  const judge = (seen: Seen, to: Target, from = inOne) =>
    compare([from], [to], new Map([[from.name, new Map([[targetKey(to), seen]])]]))[0]?.agrees;
  const postgres = target('postgres', 5432, '10.0.1.1');
  const kubelet = target('node', 10250, '192.0.2.1', { listens: false });
  it.each<[string, Seen, Target, boolean]>([
    ['agrees when what is drawn answers', 'connected', postgres, true],
    ['disagrees when what is drawn is silent', 'silence', postgres, false],
    ['disagrees when what is drawn refuses', 'refused', postgres, false],
    ['agrees when what is closed is silent', 'silence', kubelet, true],
    ['disagrees when what is closed answers', 'connected', kubelet, false],
    ['disagrees when what is closed refuses by itself: it was reached', 'refused', kubelet, false],
    ['agrees when a wall refuses what would answer', 'refused', target('s3', 7070, '10.0.1.4'), true],
    ['is no failure when nobody could be asked', 'unasked', postgres, true],
  ])('%s', (_, seen, to, agrees) => {
    expect(judge(seen, to)).toBe(agrees);
  });

  it('that is closed is witnessed when another pod met the same meanwhile', () => {
    const open = target('canary', 7002, '10.0.1.5');
    const cells = compare(
      [inOne, free],
      [open, kubelet],
      new Map<string, ReadonlyMap<string, Seen>>([
        [
          'Assistant of one',
          new Map([
            [targetKey(open), 'silence' as const],
            [targetKey(kubelet), 'silence' as const],
          ]),
        ],
        ['stranger', new Map([[targetKey(open), 'connected' as const]])],
      ]),
    );
    const of = (from: string) => cells.filter((cell) => cell.from === from).map(({ witnessed }) => witnessed);
    expect(of('Assistant of one')).toEqual([true, false]);
  });
});
