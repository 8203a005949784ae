import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { COMMANDS } from '../../brokers/db/commands.ts';
import type { TestBroker } from '../../brokers/db/testing/broker.ts';
import { copyAll, move, moveWhole, savedRows } from '../../brokers/db/testing/moves.ts';
import { query } from '../../brokers/db/testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../../brokers/db/testing/servers.ts';
import { type Clients, findClients } from '../../testing/postgres/clients.ts';
import type { Step } from '../progress/index.ts';
import type { Kube } from '../space/kube.ts';
import { compareServers, requireMatch, type Whereabouts } from './whereabouts.ts';

/** A restored registry, and a second server that may be as of another moment; both are real. */

let two: TwoServers;
let clients: Clients;
let broker: TestBroker;
let dies = '';
beforeAll(async () => {
  clients = await findClients();
  two = await openTwoServers({ major: clients.major });
  broker = await two.start({
    failpoint: (name) => {
      if (name === dies) throw new Error(`cut short at ${name}`);
    },
  });
});
afterAll(async () => {
  await broker?.stop();
  await two?.close();
});

/** A cluster whose broker is this one. */
const kube = {
  run: async (args: readonly string[]) => {
    const [command = '', ...rest] = args.slice(args.indexOf('/app/admin.mjs') + 1);
    try {
      const said = await COMMANDS[command]!.run(broker.servers, 'c'.repeat(32), rest, async () => '');
      return { code: 0, stdout: typeof said === 'string' ? said : JSON.stringify(said), stderr: '' };
    } catch (error) {
      return { code: 1, stdout: '', stderr: String(error) };
    }
  },
} as unknown as Kube;
const STEP = { note: () => undefined } as unknown as Step;
const compared = (capsules: readonly string[], acceptedLost: readonly string[] = []) =>
  compareServers(
    { kube, space: 'home', signal: new AbortController().signal, capsules, isFilled: true, acceptedLost },
    STEP,
  );

async function capsuleOn(server: 'main' | 'b', id: string) {
  const placing = await two.start({ shares: { [server === 'b' ? 'main' : 'b']: { drain: true } } });
  const principal = newToken('dbp').reveal();
  await placing.provisioner.provision(id, principal);
  const { json } = await placing.as(principal).create(id, 'app');
  await placing.stop();
  return {
    principal,
    url: String(json.database_url),
    database: new URL(json.database_url).pathname.slice(1),
  };
}
const drop = (id: string) => COMMANDS['drop']!.run(broker.servers, 'd'.repeat(32), [id], async () => '');

describe('a restored registry', () => {
  it('agrees with servers that are as of its moment, and reports which Capsules are not on main', async () => {
    await capsuleOn('main', 'here');
    await capsuleOn('b', 'there');
    expect(await compared(['here', 'there', 'not-yet'])).toEqual({
      beside: [{ capsule: 'there', server: 'b' }],
      lost: [],
      moves: [],
    });
  });

  it('names the Capsules of a server that came back empty, and continues without them if somebody says so', async () => {
    await capsuleOn('b', 'emptied');
    await two.registry(two.b, "DELETE FROM broker.capsule_limits WHERE capsule_id = 'emptied'");
    await two.registry(two.b, "DELETE FROM broker.database WHERE capsule_id = 'emptied'");
    await two.registry(two.b, "DELETE FROM broker.capsule WHERE capsule_id = 'emptied'");
    await expect(compared(['here', 'emptied'])).rejects.toThrow(
      /Capsule emptied: server b has no such Capsule\n.*own backup.*with the same --at, or .*--accept-lost emptied$/s,
    );
    expect(await compared(['emptied'], ['emptied'])).toMatchObject({ lost: ['emptied'] });
    // A Capsule that is in no state is not reported as lost.
    expect(await compared(['here'])).toMatchObject({ lost: [] });
  });

  it('names the databases that a server came back without', async () => {
    const { database } = await capsuleOn('b', 'robbed');
    await query(two.b.superuserUrl, `DROP DATABASE ${database} WITH (FORCE)`);
    await expect(compared(['robbed'])).rejects.toThrow(
      `Capsule robbed: server b lacks its databases ${database}`,
    );
    expect(await compared(['robbed'], ['robbed'])).toMatchObject({ lost: ['robbed'] });
    await drop('robbed');
  });

  it('from before a move is refused beside a server from after it, and cannot be accepted', async () => {
    await capsuleOn('main', 'twice');
    const before = await savedRows(two, two.main, 'twice');
    await moveWhole(broker, clients, 'twice', 'b');
    await before();
    await expect(compared(['twice'], ['twice'])).rejects.toThrow(
      /Capsule twice: servers main and b have it, but the registry of main says main\n.*with the same --at$/s,
    );
    await two.registry(two.main, "DELETE FROM broker.database WHERE capsule_id = 'twice'");
    await two.registry(two.main, "DELETE FROM broker.capsule WHERE capsule_id = 'twice'");
    await expect(compared(['twice'], ['twice'])).rejects.toThrow(
      /Capsule twice: server b has it, but the registry of main says main/,
    );
    await two.registry(two.main, "UPDATE broker.placement SET server = 'b' WHERE capsule_id = 'twice'");
    expect((await compared(['twice'])).lost).toEqual([]);
  });

  it('of when a Capsule was beside main, beside a server that it has left since, is refused', async () => {
    await capsuleOn('b', 'left');
    const before = await savedRows(two, two.main, 'left');
    await moveWhole(broker, clients, 'left', 'main');
    await before();
    await expect(compared(['left'])).rejects.toThrow('Capsule left: server b has no such Capsule');
    const later = await two.start();
    await later.stop();
    await expect(compared(['left'])).rejects.toThrow('Capsule left: server main has no such Capsule');
  });
});

describe('a move that was under way', () => {
  it.each(['move:after-note', 'move:after-cut', 'move:after-lending'])('at %s is undone', async (line) => {
    const id = `back-${line.slice(5)}`;
    const { principal, url } = await capsuleOn('main', id);
    dies = line;
    await expect(move(broker, id, 'b')).rejects.toThrow(line);
    dies = '';
    expect((await compared([id])).moves).toEqual([
      `the move of Capsule ${id} to b, which was under way: it was undone`,
    ]);
    expect((await broker.as(principal).create(id, 'app')).json.database_url).toBe(url);
    expect(await COMMANDS['rotate']!.run(broker.servers, 'e'.repeat(32), [id], async () => '')).toEqual({
      marked: 2,
    });
  });

  it.each(['move:after-landing', 'move:after-leaving'])('at %s is completed', async (line) => {
    const id = `ended-${line.slice(5)}`;
    const { principal } = await capsuleOn('main', id);
    const { attempt = '', copies = [] } = await move(broker, id, 'b');
    await copyAll(clients, copies);
    dies = line;
    await expect(move(broker, id, 'b', '--copied', attempt)).rejects.toThrow(line);
    dies = '';
    expect(await compared([id])).toMatchObject({
      beside: expect.arrayContaining([{ capsule: id, server: 'b' }]),
      moves: [`the move of Capsule ${id} to b, which was under way: it was completed`],
    });
    const { json } = await broker.as(principal).create(id, 'app');
    expect(two.serverOf(json.database_url)).toBe('b');
  });

  it('by what a server says alone, of which main knows nothing, is refused', async () => {
    await capsuleOn('b', 'half');
    const before = await savedRows(two, two.main, 'half');
    await move(broker, 'half', 'main');
    await before();
    await expect(compared(['half'])).rejects.toThrow(
      /server b reports that Capsule half is being moved to main, .*different moments\. Restore each server/,
    );
  });
});

describe('a registry on an external server', () => {
  const one: Whereabouts = { capsule: 'household', noted: null, movingTo: null, on: ['main'], missing: [] };
  const about = { capsules: ['household', 'attic'], isFilled: false, acceptedLost: [] };

  it('has each Capsule of the state, or the missing ones are named', () => {
    expect(() => requireMatch([one], about)).toThrow(
      /Capsule attic: the registry of main has no such Capsule/,
    );
    expect(() => requireMatch([one], { ...about, isFilled: true })).not.toThrow();
    expect(requireMatch([one], { ...about, acceptedLost: ['attic'] })).toEqual({
      beside: [{ capsule: 'household', server: 'main' }],
      lost: ['attic'],
    });
  });
});
