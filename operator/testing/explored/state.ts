/** All that an exploration of deletions tells apart. Objects are never changed, so identity is their resourceVersion. */
import type { Bounds } from './bounds.ts';

/** What a deletion policy says: nothing, Drop or Retain. */
export type Word = 0 | 1 | 2;
export const [SILENT, DROP, RETAIN] = [0, 1, 2] as const;

/** A Capsule or an Assistant. */
export interface Thing {
  readonly uid: number;
  readonly finalizer: boolean;
  /** 0, or one more than the hour of its deletion. */
  readonly deleted: number;
  readonly word: Word;
  /** Whether its status says that its database is ready. */
  readonly ready: boolean;
  /** The policy that its status shows. */
  readonly told: Word;
}

export interface Namespace {
  readonly owner: number;
  readonly going: boolean;
}

export interface Principal {
  readonly owner: number;
  readonly token: number;
  readonly url: boolean;
  /** 0, 1 once its broker is to be told to drop, 2 once it has. */
  readonly released: 0 | 1 | 2;
  readonly retained: boolean;
}

/** A URL by its number; 0 is none. */
export type Url = number;

export interface Claim {
  readonly owner: number;
  readonly retained: boolean;
  readonly url: Url;
}

export interface Running {
  readonly owner: number;
  readonly url: Url;
  /** It has lost its labels and annotations. */
  readonly stripped: boolean;
  /** It comes of a write that landed after its operator had lost the lead. */
  readonly stray: boolean;
}

export interface Row {
  readonly state: 'ready' | 'dropping' | 'dropped';
  readonly incarnation: number;
  /** The epoch in which it was named. */
  readonly name: number;
  readonly generation: number;
  readonly epoch: number;
  readonly due: boolean;
  /** Which of all databases that were ever made it stands for. The product does not know. */
  readonly life: number;
  /** The last Assistant for which it was asked for. */
  readonly for: number;
}

export interface Register {
  readonly state: 'active' | 'dropping' | 'retired' | 'finalized';
  readonly incarnation: number;
  readonly token: number;
}

/** A name on the PostgreSQL server. */
export interface Database {
  readonly name: number;
  readonly life: number;
  readonly there: boolean;
  readonly role: boolean;
  readonly login: boolean;
  readonly allowed: boolean;
  /** The URL that the role's password makes. */
  readonly url: Url;
}

/** What was answered to somebody. */
export interface Issued {
  readonly url: Url;
  readonly life: number;
  /** The Assistant whose claim has it. */
  readonly to: number;
  /** A drop of it was answered. */
  readonly dead: boolean;
}

type Kind = 'provision' | 'create' | 'drop app' | 'drop' | 'finalize' | 'upkeep';

/** A request on its way to, or in, the broker. */
export interface Job {
  readonly kind: Kind;
  readonly at: 'sent' | 'cut' | 'database' | 'role' | 'retire';
  readonly token: number;
  readonly name: number;
  readonly life: number;
  /** The Assistant for which it was asked. */
  readonly for: number;
  readonly incarnation: number;
  /** The worker that waits for its answer, or -1. */
  readonly by: number;
}

/** A reconcile at work; what it has read is what it goes by. */
export interface Worker {
  readonly at: string;
  /** The Capsule, or the Assistant that it works on. */
  readonly of: 'capsule' | 'assistant' | 'orphan';
  readonly capsule: Thing | undefined;
  readonly assistant: Thing | undefined;
  readonly namespace: Namespace | undefined;
  readonly deployment: Running | undefined;
  readonly pod: Running | undefined;
  readonly claim: Claim | undefined;
  readonly principal: Principal | undefined;
  readonly url: Url;
  readonly fate: '' | 'retain' | 'drop' | 'grace';
}

export interface State {
  readonly now: number;
  readonly grace: number;
  readonly capsule: Thing | undefined;
  readonly assistant: Thing | undefined;
  readonly namespace: Namespace | undefined;
  readonly principal: Principal | undefined;
  readonly claim: Claim | undefined;
  readonly deployment: Running | undefined;
  readonly pod: Running | undefined;
  /** The Assistant whose documents are in the namespace: they are removed last, so that leftovers can be found. */
  readonly documents: number;
  readonly register: Register | undefined;
  readonly row: Row | undefined;
  /** A bit for each token. */
  readonly retired: number;
  readonly server: readonly Database[];
  readonly jobs: readonly Job[];
  readonly workers: readonly (Worker | undefined)[];
  /** A write of an operator that leads no more, on its way. */
  readonly late: Worker | undefined;
  readonly tokens: number;
  readonly lives: number;
  readonly epochs: number;
  /** The highest generation that there was. */
  readonly high: number;
  readonly issued: readonly Issued[];
  /** The life that somebody was promised to find again. */
  readonly kept: number;
  readonly left: Bounds;
}

const bit = (value: boolean) => (value ? 1 : 0);
const thing = (one: Thing | undefined) =>
  one ? `${one.uid}${bit(one.finalizer)}${one.deleted}${one.word}${bit(one.ready)}${one.told}` : '-';
const namespace = (one: Namespace | undefined) => (one ? `${one.owner}${bit(one.going)}` : '-');
const principal = (one: Principal | undefined) =>
  one ? `${one.owner}${one.token}${bit(one.url)}${one.released}${bit(one.retained)}` : '-';
const claim = (one: Claim | undefined) => (one ? `${one.owner}${bit(one.retained)}${one.url}` : '-');
const running = (one: Running | undefined) =>
  one ? `${one.owner}${bit(one.stripped)}${bit(one.stray)}${one.url}` : '-';

/** What was read, and whether it is still as it was. */
function worker(state: State, one: Worker | undefined): string {
  if (!one) return '-';
  const same = (key: 'capsule' | 'assistant' | 'claim' | 'principal') => bit(one[key] === state[key]);
  return `${one.of[0]}${one.at},${thing(one.capsule)}${same('capsule')},${thing(one.assistant)}${same('assistant')},${namespace(one.namespace)},${running(one.deployment)},${running(one.pod)},${claim(one.claim)}${same('claim')},${principal(one.principal)}${same('principal')},${one.url},${one.fate}`;
}

const job = (one: Job) =>
  `${one.kind}${one.at}${one.token},${one.name},${one.life},${one.for},${one.incarnation},${one.by}`;
const row = (one: Row | undefined) =>
  one
    ? `${one.state}${one.incarnation},${one.name},${one.generation},${one.epoch}${bit(one.due)}${one.life},${one.for}`
    : '-';
const database = (one: Database) =>
  `${one.name},${one.life}${bit(one.there)}${bit(one.role)}${bit(one.login)}${bit(one.allowed)}${one.url}`;
const issued = (one: Issued) => `${one.url},${one.life},${one.to}${bit(one.dead)}`;

const spent = new WeakMap<Bounds, string>();
function left(bounds: Bounds): string {
  const known = spent.get(bounds);
  if (known !== undefined) return known;
  const text = Object.values(bounds).join('');
  spent.set(bounds, text);
  return text;
}

export function keyOf(state: State): string {
  const { register } = state;
  const [of, workers] = [(one: Worker | undefined) => worker(state, one), state.workers];
  return `${state.now}${state.grace}|${thing(state.capsule)}|${thing(state.assistant)}|${namespace(state.namespace)}|${principal(state.principal)}|${claim(state.claim)}|${running(state.deployment)}|${running(state.pod)}|${state.documents}|${register ? `${register.state}${register.incarnation}${register.token}` : '-'}|${row(state.row)}|${state.retired}|${state.server.map(database).join(';')}|${state.jobs.map(job).join(';')}|${of(workers[0])}|${of(workers[1])}|${of(state.late)}|${state.tokens},${state.lives},${state.epochs},${state.high},${state.kept}|${state.issued.map(issued).join(';')}|${left(state.left)}`;
}
