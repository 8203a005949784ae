import { describe, expect, it } from 'vitest';
import type { Party, Picture } from './arrows.ts';
import { targetArguments } from './ask.ts';
import { compare, expectedOf, type Outcome, type Source, type Target, targetKey } from './matrix.ts';

const PLAIN: Picture = { backup: false };

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

describe('the results that the arrows demand', () => {
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
    [
      'nor the same server at another port',
      inOne,
      target('other ports of dns', 5353, '10.0.2.1', { protocol: 'udp' }),
      'closed',
    ],
    ['which is closed to a broker, too', broker, target('other ports of dns', 9153, '10.0.2.1'), 'closed'],
    [
      'a broker asks a server of DNS where that listens',
      broker,
      target('dns', 5353, '10.0.2.1', { protocol: 'udp' }),
      'open',
    ],
    ['nobody with walls reaches a pod that has none', broker, target('stranger', 53, '10.0.3.1'), 'closed'],
    ['those without them are not the Space’s to judge', free, target('stranger', 53, '10.0.3.1'), 'theirs'],
    [
      'nobody is asked over what its program does not speak',
      source('canary', 'canary', '10.0.0.6', { speaks: ['tcp'] }),
      target('s3', 7070, '10.0.1.4', { protocol: 'udp' }),
      undefined,
    ],
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
    expect(expectedOf(PLAIN, from, to)).toBe(expected);
  });
});

describe('a Space that is backed up', () => {
  const postgres = source('postgres', 'postgres', '10.0.0.7', {
    blocks: [{ cidr: '203.0.113.7/32', except: [], ports: [{ protocol: 'tcp', port: 443 }] }],
  });
  const bucket = target('outside', 443, '203.0.113.7');
  const dns = target('dns', 53, '10.96.0.10', { protocol: 'udp' });
  it.each([
    [true, 'open'],
    [false, 'closed'],
  ] as const)('lets its PostgreSQL reach DNS and the bucket: %s', (backup, expected) => {
    for (const to of [bucket, dns]) expect(expectedOf({ backup }, postgres, to)).toBe(expected);
  });
});

describe('the targets of a pod', () => {
  it('are all that it may not reach, those that it may with a mark, and itself, to show whether it listens', () => {
    const asked = targetArguments(PLAIN, inOne, [
      target('postgres', 5432, '10.0.1.1'),
      target('s3', 7070, '10.0.1.4'),
      target('assistant', 8080, '10.0.0.1'),
      target('assistant', 8080, '10.0.0.1', { protocol: 'udp' }),
    ]);
    expect(asked).toEqual(['+tcp 10.0.1.1 5432', 'tcp 10.0.1.4 7070', 'tcp 10.0.0.1 8080']);
  });
});

describe('a cell', () => {
  const other = source('other', 's3', '10.0.9.9');
  const judge = (seen: Outcome, to: Target, met: readonly string[] = [], from = inOne) =>
    compare(
      PLAIN,
      [from],
      [to],
      new Map([[from.name, seen === 'unasked' ? new Map() : new Map([[targetKey(to), seen]])]]),
      new Map([[other.name, new Map(met.map((target) => [target, 'connected' as const]))]]),
    )[0]?.agrees;
  const postgres = target('postgres', 5432, '10.0.1.1');
  const kubelet = target('node', 10250, '192.0.2.1');
  const s3 = target('s3', 7070, '10.0.1.4');
  const six = target('assistant', 8080, 'fd00::4');
  const service = target('s3', 7070, '10.96.0.4', {
    ends: [
      { address: '10.0.1.4', port: 7070 },
      { address: '10.0.1.5', port: 7070 },
    ],
  });
  const ping = target('node', 0, '192.0.2.1', { protocol: 'icmp' });
  it.each<[string, Outcome, Target, readonly string[], boolean]>([
    ['agrees when what is drawn answers', 'connected', postgres, [], true],
    ['disagrees when what is drawn is silent', 'silence', postgres, [], false],
    ['disagrees when what is drawn refuses', 'refused', postgres, ['tcp 10.0.1.1 5432'], false],
    ['disagrees when what is drawn could not be asked', 'unable', postgres, [], false],
    ['agrees when what is closed is silent', 'silence', kubelet, [], true],
    ['agrees when what is closed has no route', 'unreachable', kubelet, [], true],
    ['disagrees when what is closed answers', 'connected', kubelet, [], false],
    ['disagrees when what is closed refuses by itself: it was reached', 'refused', kubelet, [], false],
    ['agrees when a wall refuses what answers others, or itself', 'refused', s3, ['tcp 10.0.1.4 7070'], true],
    [
      'disagrees when what listens on IPv4 alone refuses through an open IPv6 wall',
      'refused',
      six,
      ['tcp 10.0.0.4 8080'],
      false,
    ],
    [
      'agrees when a Service refuses of which every pod answers',
      'refused',
      service,
      ['tcp 10.0.1.4 7070', 'tcp 10.0.1.5 7070'],
      true,
    ],
    ['disagrees when one of them does not', 'refused', service, ['tcp 10.0.1.4 7070'], false],
    ['disagrees when nobody could be asked', 'unasked', kubelet, [], false],
    ['disagrees when nobody could be asked what is drawn', 'unasked', postgres, [], false],
    ['agrees when the runtime gives no socket to ping with', 'unable', ping, [], true],
    ['disagrees when it gives none for TCP', 'unable', kubelet, [], false],
  ])('%s', (_, seen, to, met, agrees) => {
    expect(judge(seen, to, met)).toBe(agrees);
  });

  it('that is closed is witnessed when another pod, or the target itself, reached it meanwhile', () => {
    const met = target('canary', 7002, '10.0.1.5');
    const own = target('assistant', 8080, '10.0.0.9');
    const owner = source('Assistant of two', 'assistant', '10.0.0.9');
    const saw = (...all: [Target, Outcome][]) => new Map(all.map(([to, seen]) => [targetKey(to), seen]));
    const cells = compare(
      PLAIN,
      [inOne, free, owner],
      [met, kubelet, own],
      new Map([
        ['Assistant of one', saw([met, 'silence'], [kubelet, 'silence'], [own, 'silence'])],
        ['stranger', saw([met, 'connected'])],
        ['Assistant of two', saw([own, 'connected'])],
      ]),
    );
    const of = (from: string) => cells.filter((cell) => cell.from === from).map(({ witnessed }) => witnessed);
    expect(of('Assistant of one')).toEqual([true, false, true]);
  });
});
