/**
 * Deletions of a Capsule and its Assistant as a machine whose every interleaving can be gone through: the operator's two
 * reconciles, the broker's transactions, administrators, the cluster, and what fails. Decisions are those of operator and
 * broker (decisions.ts); what is here and beside is the order of their steps.
 */
import type { Space, Step } from '../../../testing/explore.ts';
import { assistantHears, assistantStep, beginAssistant } from './assistants.ts';
import type { Bounds, Defect } from './bounds.ts';
import { type Answer, brokerSteps, type Hear } from './broker.ts';
import { beginCapsule, capsuleHears, capsuleStep } from './capsules.ts';
import { type Ends, endsOf, type Machine } from './fair.ts';
import { LATE, put, type Rules, rulesOf, step, workerAt } from './rules.ts';
import { type Job, keyOf, type State, type Worker } from './state.ts';
import { administrators, clock, cluster } from './world.ts';

export function deletionSpace(bounds: Bounds, defect?: Defect): Space<State> {
  const rules = rulesOf(bounds, defect);
  const machine = machineOf(rules);
  const ends = endsOf(machine, bounds);
  return {
    initial: machine.initial,
    key: keyOf,
    next: (state) => [
      ...[0, 1].flatMap((slot) => machine.begins(state, slot) ?? machine.goesOn(state, slot) ?? []),
      ...(machine.goesOn(state, LATE) ? [machine.goesOn(state, LATE)].flatMap((one) => one ?? []) : []),
      ...machine.serves(state),
      ...machine.cluster(state),
      ...clock(rules, state),
      ...administrators(rules, state),
      ...fails(rules, state),
    ],
    judge: (state) => stuck(ends, state),
  };
}

function stuck(ends: Ends, state: State): string | undefined {
  // What is at work comes to an end, and so to a state that is judged.
  if (state.late || state.jobs.length > 0 || state.workers.some((worker) => worker)) return undefined;
  return ends(state);
}

function machineOf(rules: Rules): Machine {
  const hear = hearing(rules);
  const { bounds } = rules;
  const initial: State = {
    ...{ now: 0, grace: bounds.grace, capsule: undefined, assistant: undefined, namespace: undefined },
    ...{ principal: undefined, claim: undefined, deployment: undefined, pod: undefined, documents: 0 },
    ...{ register: undefined, row: undefined, retired: 0, server: [], jobs: [], tokens: 0, lives: 0 },
    ...{ workers: [undefined, undefined], late: undefined, epochs: 0, high: 0, issued: [], kept: 0 },
    left: bounds,
  };
  const machine: Machine = {
    initial,
    begins(state, slot) {
      if (state.workers[slot]) return undefined;
      const worker = slot === 0 ? beginCapsule(rules, state) : beginAssistant(rules, state);
      const what = slot === 0 ? 'capsule' : 'assistant';
      return worker && step(`operator looks at the ${what}`, put(state, slot, worker));
    },
    goesOn(state, slot) {
      const worker = workerAt(state, slot);
      if (!worker || worker.at.startsWith('wait ')) return undefined;
      const take = isCapsules(worker) ? capsuleStep : assistantStep;
      const taken = take(rules, state, slot, worker);
      const alone = slot === LATE && !rules.is('goes on after its Lease is lost');
      if (!alone) return taken;
      // Nobody waits for its answer, and nothing follows.
      const jobs = taken.to.jobs.map((job) => (job.by === LATE ? { ...job, by: -1 } : job));
      return { ...taken, to: { ...taken.to, late: undefined, jobs } };
    },
    serves: (state) => brokerSteps(rules, hear, state),
    cluster,
  };
  return bounds.running > 0 ? { ...machine, initial: running(rules, machine) } : machine;
}

/** A Capsule with an Assistant that runs, to begin with. */
function running(rules: Rules, machine: Machine): State {
  let state = machine.initial;
  for (;;) {
    const [next] = [
      ...machine.serves({ ...state, left: { ...state.left, upkeeps: 0 } }),
      ...[0, 1].flatMap((slot) => machine.goesOn(state, slot) ?? machine.begins(state, slot) ?? []),
      ...machine.cluster(state),
      ...administrators(rules, state).filter(({ label }) => label.endsWith(' is applied')),
    ];
    if (next === undefined || (state.pod && state.assistant?.ready)) return state;
    state = next.to;
  }
}

const isCapsules = ({ of, at }: Worker) => of === 'capsule' || at === 'look for orphan';

function hearing(rules: Rules): Hear {
  return (state, by, answer, url) => {
    const worker = by < 0 ? undefined : workerAt(state, by);
    return worker ? put(state, by, heard(rules, worker, answer, url)) : state;
  };
}

function heard(rules: Rules, worker: Worker, answer: Answer, url: number): Worker | undefined {
  const { assistant } = worker;
  if (isCapsules(worker)) return capsuleHears(rules, worker, answer);
  return assistant && assistantHears(rules, { ...worker, assistant }, answer, url);
}

/** Writes and requests that may have been sent, and land when their operator leads no more. */
const READS = new Set([
  ...['read principal', 'look for orphan', 'ask of capsule', 'read holdings', 'read facts', 'read claim'],
  ...['find pods', 'ask of assistant', 'ask of database', 'ask of broker'],
]);

function fails(rules: Rules, state: State): Step<State>[] {
  const { left } = state;
  const { is } = rules;
  const overdue = is('begins a drop that its caller gave up');
  /** A request that no one has begun to serve is not begun once its caller has given it up, but for a create. */
  const abandoned = (jobs: readonly Job[], gone: (job: Job) => boolean) =>
    jobs.flatMap((job) => {
      if (!gone(job)) return [job];
      const begins = job.at !== 'sent' || job.kind === 'create' || job.kind === 'provision' || overdue;
      return begins ? [{ ...job, by: -1 }] : [];
    });
  const may = ({ at }: Worker) =>
    !READS.has(at) && !at.startsWith('wait ') && (!at.startsWith('send drop') || overdue);
  const steps: Step<State>[] = [];
  if (left.successions > 0 && state.workers.some((worker) => worker)) {
    const jobs = abandoned(state.jobs, ({ by }) => by === 0 || by === 1);
    const dead = { ...state, jobs, left: { ...left, successions: left.successions - 1 } };
    const succession = { ...dead, workers: [undefined, undefined] };
    steps.push(step('another operator leads', succession));
    for (const worker of state.late ? [] : state.workers)
      if (worker && (may(worker) || is('goes on after its Lease is lost')) && !worker.at.startsWith('wait '))
        steps.push(
          step(`another operator leads, "${worker.at}" is on its way`, { ...succession, late: worker }),
        );
  }
  const hear = hearing(rules);
  const lose = (to: State, by: number) => (by < 0 ? to : failed(rules, hear, to, by));
  if (left.brokerCrashes > 0 && state.jobs.length > 0) {
    const dead: State = { ...state, jobs: [], left: { ...left, brokerCrashes: left.brokerCrashes - 1 } };
    const alone = state.jobs.reduce<State>((to, { by }) => lose(to, by), dead);
    steps.push(step('the broker dies', alone));
  }
  if (left.lost > 0)
    for (const waits of state.jobs)
      if (waits.by >= 0) {
        const jobs = abandoned(state.jobs, (job) => job === waits);
        const to = { ...state, jobs, left: { ...left, lost: left.lost - 1 } };
        steps.push(step(`the answer to ${waits.kind} is lost`, lose(to, waits.by)));
      }
  return steps;
}

/** The process that waited for the answer starts again. */
function failed({ is }: Rules, hear: Hear, state: State, by: number): State {
  const goes = is('takes a broker that is away for one that has dropped');
  const worker = workerAt(state, by);
  return goes && worker?.at === 'wait drop app' ? hear(state, by, 'lost', 0) : put(state, by, undefined);
}
