import { readFileSync } from 'node:fs';
import { Secret } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { parseCertificate } from '../authority.ts';
import { PATIENT, startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { condition, type Subjects, subjects } from '../testing/subjects.ts';
import { type Ask, type Kubernetes, kubernetes } from './client.ts';
import { KeptLists } from './kept-lists.ts';
import { capsulesPath } from './space.ts';

const PATH = capsulesPath('home');

describe('a cached list', () => {
  let environment: TestEnvironment;
  let made: Subjects;
  let api: Kubernetes;
  const asked: Ask[] = [];
  /** Reads of the whole list since the last count. */
  const wholes = () => asked.splice(0).filter(({ query }) => query?.['limit'] === '200').length;
  const watcher = { id: 'somebody' };
  const callerOf = (role: 'viewer' | 'nobody') => ({ token: new Secret(environment.tokens[role]) });
  let lists: KeptLists;
  let counting: Kubernetes;
  const look = async (path = PATH) =>
    (await lists.rows(watcher, callerOf('viewer'), path)).rows.map(({ name, ready }) => `${name} ${ready}`);

  beforeAll(async () => {
    environment = await startEnvironment();
    made = subjects(environment);
    await made.capsule('first');
    const url = environment.policyServer.server.url;
    const authority = parseCertificate(
      readFileSync(environment.variables['KUBERNETES_CA_FILE'] ?? '', 'utf8'),
    );
    api = kubernetes({ url, authority: () => authority, timeoutMs: PATIENT.apiMs });
    counting = {
      ...api,
      ask: (caller, ask) => {
        asked.push(ask);
        return api.ask(caller, ask);
      },
    };
    lists = new KeptLists(counting);
  });
  afterAll(async () => {
    lists?.end();
    await api?.close();
    await environment?.close();
  });

  it('is read once, and follows creations, changes and deletions', async () => {
    expect(await look()).toEqual(['first True']);
    await made.capsule('another', {}, [condition('Ready', 'False', 'Waiting')]);
    await eventually(async () => (await look()).join() === 'another False,first True', {
      what: 'a new line',
    });
    wholes();
    const body = { status: { conditions: [condition('Ready', 'True', 'Ready')] } };
    const { client } = environment.policyServer.server;
    const merge = 'application/merge-patch+json';
    await client.call({ method: 'PATCH', path: `${PATH}/another/status`, contentType: merge, body });
    await eventually(async () => (await look()).join() === 'another True,first True', { what: 'its change' });
    expect(wholes()).toBe(0);
    await client.call({ method: 'DELETE', path: `${PATH}/another` });
    await eventually(async () => (await look()).join() === 'first True', { what: 'its end' });
  });

  it('is refused as soon as the person loses the right', async () => {
    await look();
    await expect(lists.rows(watcher, callerOf('nobody'), PATH)).rejects.toMatchObject({ status: 403 });
  });

  it('is read again after a change by the person, and if it lacks a change that they were notified about', async () => {
    await look();
    wholes();
    await look();
    expect(wholes()).toBe(0);
    lists.forget(watcher);
    await look();
    expect(wholes()).toBe(1);
    lists.expect(watcher, PATH, '999999999999999');
    await look();
    expect(wholes()).toBe(1);
  });

  it('is read once for all pages that one person opens at the same time, each with its own check of rights', async () => {
    lists.forget(watcher);
    asked.length = 0;
    const pages = [look(), look(), look(), look()];
    const refused = lists.rows(watcher, callerOf('nobody'), PATH);
    await expect(refused).rejects.toMatchObject({ status: 403 });
    expect(await Promise.all(pages)).toEqual(pages.map(() => ['first True']));
    expect(asked.filter(({ query }) => query?.['limit'] === '1')).toHaveLength(4);
    expect(wholes()).toBe(1);
  });

  it('is not shared with another person, even while it is read', async () => {
    lists.forget(watcher);
    wholes();
    await Promise.all([look(), lists.rows({ id: 'a third' }, callerOf('viewer'), PATH)]);
    expect(wholes()).toBe(2);
  });

  it('is read again if the person changed something or was notified about a change while it was read', async () => {
    for (const meanwhile of [
      () => lists.forget(watcher),
      () => lists.expect(watcher, PATH, '999999999999999'),
    ]) {
      lists.forget(watcher);
      wholes();
      const before = look();
      meanwhile();
      await Promise.all([before, look()]);
      expect(wholes()).toBe(2);
    }
    lists.forget(watcher);
  });

  it('is read by each waiting request if the first is refused', async () => {
    lists.forget(watcher);
    const refused = lists.rows(watcher, callerOf('nobody'), PATH);
    const other = look();
    await expect(refused).rejects.toMatchObject({ status: 403 });
    expect(await other).toEqual(['first True']);
  });

  it('is not shared with other people', async () => {
    await look();
    wholes();
    await lists.rows({ id: 'somebody else' }, callerOf('viewer'), PATH);
    expect(wholes()).toBe(1);
  });

  it('of more rows than are read says so, and is not read again for that', async () => {
    const names = Array.from({ length: 200 }, (_, index) => `one-of-many-${index}`);
    for (const name of names) {
      const body = { apiVersion: 'platform.space/v1', kind: 'Capsule', metadata: { name }, spec: {} };
      await environment.policyServer.create(PATH, body);
    }
    const short = new KeptLists(counting, 200);
    const rows = async () => short.rows({ id: 'somebody' }, callerOf('viewer'), PATH);
    wholes();
    const before = await rows();
    expect([before.rows.length, before.isCut]).toEqual([200, true]);
    await rows();
    expect(wholes()).toBe(1);
    short.end();
    expect((await lists.rows(watcher, callerOf('viewer'), PATH)).isCut).toBe(false);
  });
});
