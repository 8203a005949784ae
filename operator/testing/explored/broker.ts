/**
 * The database broker: each step is one of its transactions, or a statement outside of one. The order is that of provision.ts,
 * ensure.ts, drop.ts and finish.ts.
 */
import type { Step } from '../../../testing/explore.ts';
import { urlOf } from './decisions.ts';
import { opens, type Rules, step } from './rules.ts';
import type { Database, Issued, Job, Register, Row, State, Url } from './state.ts';

export type Answer = 'ok' | 'absent' | 'forbidden' | 'conflict' | 'lost';
export type Hear = (state: State, by: number, answer: Answer, url: Url) => State;

export function brokerSteps(rules: Rules, hear: Hear, state: State): Step<State>[] {
  const { is, broker } = rules;
  const upkeep: Step<State>[] = [];
  const { row: pending } = state;
  if (pending?.state === 'dropping' && state.left.upkeeps > 0 && state.jobs.length < 3) {
    const job = jobOf('upkeep', 0, -1, { at: 'database', name: pending.name, life: pending.life });
    const left = { ...state.left, upkeeps: state.left.upkeeps - 1 };
    upkeep.push(step('upkeep takes a drop up', { ...state, left, jobs: [...state.jobs, job] }));
  }
  return [...state.jobs.flatMap((job, i) => take(job, i) ?? []), ...upkeep];

  function take(job: Job, i: number): Step<State> | undefined {
    const others = state.jobs.filter((_, other) => other !== i);
    const name = `broker: ${job.kind}, ${job.at}`;
    const go = (to: State, change: Partial<Job>, wrong?: string) =>
      step(name, { ...to, jobs: to.jobs.with(i, { ...job, ...change }) }, wrong);
    const answer = (to: State, what: Answer, url: Url = 0, wrong?: string) =>
      step(`${name}: ${what}`, hear({ ...to, jobs: others }, job.by, what, url), wrong);
    const dropped = (to: State, life: number) => ({
      ...to,
      issued: to.issued.map((one) => (one.life === life ? { ...one, dead: true } : one)),
    });

    if (job.at === 'database') {
      const server = state.server.map((one) => (one.name === job.name ? { ...one, there: false } : one));
      return go({ ...state, server }, { at: 'role' });
    }
    if (job.at === 'role') {
      const to = finished(job);
      if (job.kind === 'drop') return go(to, { at: 'retire' });
      return answer(dropped(to, job.life), 'ok');
    }
    if (job.at === 'retire') {
      const to = dropped(state, job.life);
      const { register } = to;
      if (register?.state !== 'dropping' || register.incarnation !== job.incarnation) return answer(to, 'ok');
      const retired = to.retired | (1 << register.token);
      return answer({ ...to, retired, register: { ...register, state: 'retired', token: 0 } }, 'ok');
    }
    const register = authorised(job);
    switch (job.kind) {
      case 'provision':
        return provision(job, answer);
      case 'create':
        return register ? create(job, register, answer) : answer(state, 'forbidden');
      case 'drop app':
        return register ? dropApp(job, register, go, answer, dropped) : answer(state, 'forbidden');
      case 'drop':
        return register ? drop(register, go) : answer(state, 'forbidden');
      case 'finalize': {
        const decision = broker.finalize(state.register);
        if (decision === 'unknown') return answer(state, 'absent');
        if (decision === 'conflict') return answer(state, 'conflict');
        const { register: known } = state;
        if (decision !== 'finalize' || !known) return answer(state, 'ok');
        return answer({ ...state, register: { ...known, state: 'finalized', token: 0 } }, 'ok');
      }
      default:
        return undefined;
    }
  }

  function authorised({ kind, token }: Job): Register | undefined {
    return authority(rules, state, token, kind === 'drop' ? 'drop' : 'apps');
  }

  function provision({ token, by }: Job, answer: (to: State, what: Answer) => Step<State>): Step<State> {
    const { register } = state;
    const decision = broker.provision(register, register?.token === token);
    if (decision === 'conflict') return answer(state, 'conflict');
    if (decision === 'same incarnation') return answer(state, 'ok');
    const retired = (state.retired & (1 << token)) !== 0;
    // What its operator gave up, and whose Capsule is deleted before the broker knows it, is taken to be lost.
    const wanted = state.capsule?.deleted === 0 && state.principal?.token === token;
    if (by < 0 && !wanted && !retired && !is('begins a provision that its caller gave up'))
      return answer(state, 'absent');
    if (retired && !is('takes back a principal that was retired')) return answer(state, 'conflict');
    const incarnation = decision === 'first incarnation' ? 1 : (register?.incarnation ?? 0) + 1;
    return answer({ ...state, register: { state: 'active', incarnation, token } }, 'ok');
  }

  function create(
    job: Job,
    register: Register,
    answer: (to: State, what: Answer, url?: Url, wrong?: string) => Step<State>,
  ): Step<State> {
    const { row } = state;
    const decision = broker.create(row);
    if (decision.kind === 'conflict') return answer(state, 'conflict');
    const epoch = is('gives the same epoch again') ? 1 : state.epochs + 1;
    if (decision.kind === 'create') {
      const known = state.server.find(({ name }) => name === epoch);
      if (known?.there || known?.role) return answer(state, 'conflict');
      return created(job, register, decision.generation, epoch, answer);
    }
    const own = state.server.find(({ name }) => name === row?.name);
    if (!row || !own?.there || !own.role) return answer(state, 'conflict');
    const rotates = decision.kind === 'rotate';
    const asked = { ...row, for: Math.max(row.for, job.for) };
    const next: Row = rotates ? { ...asked, generation: decision.generation, epoch, due: false } : asked;
    const url = urlOf(next.name, next.generation, next.epoch);
    const high = Math.max(state.high, next.generation);
    const server = state.server.map((one) => (one === own ? { ...one, url, login: true } : one));
    const to = { ...state, server, row: next, high, epochs: rotates ? epoch : state.epochs };
    return issue(to, url, next, rotates, answer);
  }

  function created(
    { for: uid }: Job,
    { incarnation }: Register,
    generation: number,
    epoch: number,
    answer: (to: State, what: Answer, url?: Url, wrong?: string) => Step<State>,
  ): Step<State> {
    const life = state.lives + 1;
    const url = urlOf(epoch, generation, epoch);
    const row: Row = {
      state: 'ready',
      incarnation,
      name: epoch,
      generation,
      epoch,
      due: false,
      life,
      for: uid,
    };
    const fresh: Database = {
      ...{ name: epoch, life, url, there: true, role: true, login: true, allowed: true },
    };
    const server = [...state.server.filter(({ name }) => name !== epoch), fresh];
    const high = Math.max(state.high, generation);
    const to = { ...state, row, server, high, lives: life, epochs: Math.max(state.epochs, epoch) };
    return issue(to, url, row, true, answer);
  }

  function issue(
    to: State,
    url: Url,
    { life, generation }: Row,
    isNew: boolean,
    answer: (to: State, what: Answer, url?: Url, wrong?: string) => Step<State>,
  ): Step<State> {
    const same = to.issued.find((one) => one.url === url);
    const entry: Issued = { url, life, to: 0, dead: false };
    const told = same ? to : { ...to, issued: [...to.issued, entry] };
    const wrong = () => {
      if (same && same.life !== life) return 'two incarnations share a URL';
      if (isNew && generation <= state.high) return 'a generation is given twice, or goes back';
      if (generation < state.high) return 'a generation goes back';
      if (!opens(told, url)) return 'a URL is answered that opens nothing';
      if (state.kept !== 0 && state.kept !== life) return 'what comes back is not what was kept';
      return undefined;
    };
    return answer(told, 'ok', url, wrong());
  }

  function dropApp(
    job: Job,
    { incarnation }: Register,
    go: (to: State, change: Partial<Job>, wrong?: string) => Step<State>,
    answer: (to: State, what: Answer, url?: Url, wrong?: string) => Step<State>,
    dropped: (to: State, life: number) => State,
  ): Step<State> {
    const { row } = state;
    const decision = broker.drop(row, incarnation);
    if (!row || decision === 'never created') return answer(state, 'absent');
    if (decision === 'already absent') return answer(dropped(state, row.life), 'ok');
    const about = { name: row.name, life: row.life };
    if (decision === 'resume') return go(state, { at: 'database', ...about });
    const wrong =
      job.for >= row.for ? cutting(row, false) : 'a database is dropped that nobody ordered to be dropped';
    const noted: Row = is('cuts access without noting it') ? row : { ...row, state: 'dropping' };
    const marked: State = { ...state, row: noted };
    if (!is('answers a drop before access is cut'))
      return go(closed(marked, row), { at: 'database', ...about }, wrong);
    const heard = hear(dropped(marked, row.life), job.by, 'ok', 0);
    return go(heard, { at: 'database', ...about, by: -1 }, wrong);
  }

  function drop(
    register: Register,
    go: (to: State, change: Partial<Job>, wrong?: string) => Step<State>,
  ): Step<State> {
    const { row } = state;
    const about = { name: row?.name ?? 0, life: row?.life ?? 0, incarnation: register.incarnation };
    const living = row && row.state !== 'dropped' ? row : undefined;
    const next = { ...about, at: living ? 'database' : 'retire' } as const;
    if (register.state !== 'active') return go(state, next);
    const to: State = { ...state, register: { ...register, state: 'dropping' } };
    if (!living) return go(to, next);
    const marked: State = { ...to, row: { ...living, state: 'dropping' } };
    return go(closed(marked, living), next, cutting(living, state.left.forced < rules.bounds.forced));
  }

  function closed(to: State, { name }: Row): State {
    const close = (one: Database) => (one.name === name ? { ...one, login: false, allowed: false } : one);
    return { ...to, server: to.server.map(close) };
  }

  /** With a Capsule whose Assistant's finalizer was taken off by force the data goes while its pods go. */
  function cutting({ life }: Row, forced: boolean): string | undefined {
    if (state.kept === life) return 'data is dropped that was to be kept';
    const { pod, issued } = state;
    const runs =
      !forced && pod && !pod.stray && issued.some((one) => one.url === pod.url && one.life === life);
    return runs ? 'a database is dropped under a pod that has its URL' : undefined;
  }

  /** Drops the role and leaves the tombstone, where the row is still of that name. */
  function finished({ name }: Job): State {
    const { row } = state;
    const blind = is('drops what is being dropped by its row alone');
    if (!row || (!blind && (row.state !== 'dropping' || row.name !== name))) return state;
    const server = state.server.map((one) => (one.name === name ? { ...one, role: false } : one));
    if (is('leaves no tombstone')) return { ...state, server, row: undefined };
    return { ...state, server, row: { ...row, state: 'dropped', due: false } };
  }
}

/** The Capsule for which a principal may do this. */
export function authority(
  { broker }: Rules,
  { register }: State,
  token: number,
  operation: 'apps' | 'drop',
): Register | undefined {
  if (!register || register.token !== token || token === 0) return undefined;
  return broker.mayAct(register, operation) ? register : undefined;
}

export function jobOf(kind: Job['kind'], token: number, by: number, more: Partial<Job> = {}): Job {
  return { kind, at: 'sent', token, name: 0, life: 0, for: 0, incarnation: 0, by, ...more };
}
