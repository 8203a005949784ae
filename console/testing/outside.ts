import { request } from 'undici';
import { forged } from './forged.ts';
import { type Gathering, type Person, READERS } from './people.ts';

/** A route that is no page of somebody who has signed in: what everybody gets of it, and is to get. */
interface Outside {
  readonly ask: (all: Gathering, person: Person) => Promise<unknown>;
  readonly wanted: (person: Person, all: Gathering) => unknown;
}

/** A file of ours by the address that pages name. */
const asset = (name: string): Outside => ({
  async ask({ as }, person) {
    const who = as[person];
    const { html } = await who.get('/sandbox');
    const [path] = new RegExp(`/assets/[0-9a-f]{16}/${name}`).exec(html) ?? [];
    return path === undefined ? 'not named' : (await who.once('GET', path)).status;
  },
  // The page for people who are not signed in has no script.
  wanted: (person) => (person === 'stranger' && name === 'live.js' ? 'not named' : 200),
});

/** The last row ends every session. */
export const OUTSIDE: Readonly<Record<string, Outside>> = {
  'GET /healthz': {
    ask: async ({ as }, person) => (await as[person].once('GET', '/healthz')).html,
    wanted: () => 'ok',
  },
  'GET /assets/:digest/style.css': asset('style.css'),
  'GET /assets/:digest/live.js': asset('live.js'),
  'GET /sign-in': {
    ask: async ({ as }, person) => (await as[person].get('/sign-in')).forms.map(({ action }) => action),
    wanted: () => ['/sign-in'],
  },
  'POST /sign-in': {
    async ask({ as }, person) {
      const who = as[person];
      const before = who.cookies.get('__Host-space-session');
      const page = await who.send(await who.get('/sign-in'), '/sign-in', { token: 'of-nobody' });
      return [page.status, who.cookies.get('__Host-space-session') === before];
    },
    wanted: () => [422, true],
  },
  'GET /sign-in/issuer': {
    async ask({ as }, person) {
      const who = as[person];
      const { status, headers } = await who.once('GET', '/sign-in/issuer');
      return [status, new URL(String(headers['location'])).origin];
    },
    wanted: (_person, { issuerUrl }) => [303, issuerUrl],
  },
  'GET /sign-in/issuer/answer': {
    async ask({ as }, person) {
      const who = as[person];
      const before = who.cookies.get('__Host-space-session');
      const { status } = await who.once('GET', '/sign-in/issuer/answer?code=of-nobody&state=made-up');
      return [status, who.cookies.get('__Host-space-session') === before];
    },
    wanted: () => [502, true],
  },
  'GET /live': {
    async ask({ as, origin }, person) {
      const who = as[person];
      const cookie = [...who.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const { statusCode, headers, body } = await request(`${origin}/live?page=/`, {
        headers: { cookie },
      });
      body.on('error', () => {}).destroy();
      return [statusCode, headers['content-type']];
    },
    wanted: (person) =>
      READERS.includes(person) ? [200, 'text/event-stream; charset=utf-8'] : [204, undefined],
  },
  'POST /sign-out': {
    async ask({ as, whole }, person) {
      const who = as[person];
      if (person === 'stranger') return (await who.post('/sign-out', {})).path;
      const copy = new Map(who.cookies);
      const page = await forged(whole.environment, who, '/sign-out', {});
      for (const [name, value] of copy) who.cookies.set(name, value);
      return [page.path, (await who.get('/sandbox')).path];
    },
    wanted: (person) => (person === 'stranger' ? '/sign-in' : ['/sign-in', '/sign-in?to=%2Fsandbox']),
  },
};
