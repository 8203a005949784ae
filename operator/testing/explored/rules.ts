/** What every part of the machine needs, and what must hold in every state. */
import type { Step } from '../../../testing/explore.ts';
import type { Bounds, Defect } from './bounds.ts';
import {
  type BrokerDecisions,
  brokerDecisions,
  type OperatorDecisions,
  operatorDecisions,
} from './decisions.ts';
import { type Database, DROP, RETAIN, type State, type Thing, type Url, type Worker } from './state.ts';

export interface Rules {
  readonly bounds: Bounds;
  readonly is: (defect: Defect) => boolean;
  readonly broker: BrokerDecisions;
  readonly operator: OperatorDecisions;
}

export function rulesOf(bounds: Bounds, defect: Defect | undefined): Rules {
  return {
    bounds,
    is: (one) => defect === one,
    broker: brokerDecisions(defect),
    operator: operatorDecisions(defect),
  };
}

const enters = ({ there, role, login, allowed }: Database) => there && role && login && allowed;

export const opens = ({ server }: State, url: Url): boolean =>
  server.some((database) => database.url === url && enters(database));

/** What must never be so, whatever led to it. */
function broken(state: State): string | undefined {
  const { claim, issued, row, server } = state;
  if (claim?.retained && claim.url !== 0) return 'the URL of what is retained is in the cluster';
  if (issued.some(({ dead, url }) => dead && opens(state, url)))
    return 'a URL from before an answered drop opens something';
  const own = server.find(({ life }) => life === row?.life);
  if (row?.state === 'dropped' && own && enters(own)) return 'what has a tombstone is open';
  if (row?.state === 'ready' && own && !own.there) return 'data was dropped that is in use';
  const { capsule, principal } = state;
  if (capsule?.deleted === 0 && principal?.retained && principal.owner === capsule.uid)
    return 'what a Capsule has is free for the next one';
  return undefined;
}

export const step = (label: string, to: State, wrong?: string): Step<State> => ({
  label,
  to,
  wrong: wrong ?? broken(to),
});

/** A worker that has read nothing yet. */
export const IDLE: Worker = {
  at: '',
  of: 'capsule',
  capsule: undefined,
  assistant: undefined,
  namespace: undefined,
  deployment: undefined,
  pod: undefined,
  claim: undefined,
  principal: undefined,
  url: 0,
  fate: '',
};

/** The slot of the write that is on its way from an operator that leads no more. */
export const LATE = 2;

export const workerAt = (state: State, slot: number): Worker | undefined =>
  slot === LATE ? state.late : state.workers[slot];

export const put = (state: State, slot: number, worker: Worker | undefined): State =>
  slot === LATE ? { ...state, late: worker } : { ...state, workers: state.workers.with(slot, worker) };

/** From the last word on, until a drop is answered. */
const DROPS = ['read holdings', 'mark begun', 'send drop', 'wait drop'];
const APP_DROPS = ['send drop app', 'wait drop app'];

/** Somebody has read the last word, and it was to drop: what comes now comes too late. */
export const dropIsOrdered = (state: State): boolean =>
  appDropIsOrdered(state) || orders(state, DROPS) || state.jobs.some(({ kind }) => kind === 'drop');

/** The same of an Assistant's alone, which goes on though its Capsule is told otherwise. */
export const appDropIsOrdered = (state: State): boolean =>
  orders(state, APP_DROPS) || state.jobs.some(({ kind }) => kind === 'drop app' || kind === 'upkeep');

const orders = ({ workers, late }: State, steps: readonly string[]) =>
  [...workers, late].some((worker) => worker?.fate === 'drop' && steps.includes(worker.at));

/** What is there to be found again at the end of a deletion that keeps. */
export const keptLife = ({ row, kept }: State): number => (row?.state === 'ready' ? row.life : kept);

/** What an administrator's words mean, said once more, so that the operator's decision is held against it. */
export function keeps({ now, grace, capsule }: State, known: Thing, asked: Thing | undefined): boolean {
  const own = asked?.uid === known.uid ? asked : known;
  const inherited = capsule ? capsule.word || DROP : own.told || DROP;
  const word = capsule && capsule.deleted > 0 ? inherited : own.word || inherited;
  return word === RETAIN || known.deleted === 0 || now < known.deleted - 1 + grace;
}

export function capsuleKeeps({ now, grace }: State, known: Thing, asked: Thing | undefined): boolean {
  const own = asked?.uid === known.uid ? asked : known;
  return own.word === RETAIN || known.deleted === 0 || now < known.deleted - 1 + grace;
}
