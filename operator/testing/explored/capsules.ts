/** The operator's work on a Capsule that lives, in the order of capsule/controller.ts. */
import type { Step } from '../../../testing/explore.ts';
import { takeAway } from './assistant-ends.ts';
import { type Answer, jobOf } from './broker.ts';
import {
  capsuleGoes,
  type End,
  type Go,
  type OwnCapsule,
  outside,
  type Send,
  type Turn,
} from './capsule-ends.ts';
import { IDLE, LATE, put, type Rules, step } from './rules.ts';
import { RETAIN, SILENT, type State, type Thing, type Worker } from './state.ts';

/** Begins to work on the Capsule as the store has it, where there is anything to do. */
export function beginCapsule(rules: Rules, state: State): Worker | undefined {
  const { capsule, assistant, namespace, deployment, pod } = state;
  if (!capsule) return undefined;
  const worker: Worker = { ...IDLE, capsule };
  if (capsule.deleted > 0) {
    if (!capsule.finalizer) return undefined;
    return { ...worker, namespace, assistant, at: 'ask of capsule' };
  }
  if (!capsule.finalizer) return { ...worker, namespace, at: 'add finalizer' };
  if (!namespace || !capsule.ready) return bounded(rules, { ...worker, namespace });
  const suspect = [deployment?.owner ?? 0, state.documents].find(
    (owner) => owner !== 0 && owner !== assistant?.uid,
  );
  if (suspect !== undefined) {
    const orphan: Thing = {
      ...{ uid: suspect, finalizer: false, deleted: 0, word: RETAIN, ready: false, told: SILENT },
    };
    const seen = { ...worker, assistant: orphan, deployment, pod };
    return { ...seen, of: 'orphan', at: 'look for orphan' };
  }
  return undefined;
}

function bounded({ operator }: Rules, worker: Worker): Worker | undefined {
  const { capsule, namespace } = worker;
  const act = capsule && operator.namespace(capsule, namespace);
  if (act === 'create') return { ...worker, at: 'create namespace' };
  return act === 'keep' ? { ...worker, namespace: undefined, at: 'read principal' } : undefined;
}

export function capsuleStep(rules: Rules, state: State, slot: number, worker: Worker): Step<State> {
  const { capsule } = worker;
  const name = `${slot === LATE ? 'late ' : ''}operator, capsule ${capsule?.uid}: ${worker.at}`;
  const go: Go = (to, next, wrong) => step(name, put(to, slot, next), wrong);
  const end: End = (why) => step(`${name}: ${why}`, put(state, slot, undefined));
  const send: Send = (kind, token) =>
    go({ ...state, jobs: [...state.jobs, jobOf(kind, token, slot)] }, { ...worker, at: `wait ${kind}` });
  if (!capsule) return end('nothing to do');
  const own = { ...worker, capsule };
  const turn = { go, end, send };
  const taken = lives(rules, state, own, turn) ?? capsuleGoes(rules, state, own, turn);
  if (taken === undefined) throw new Error(`no such step: ${worker.at}`);
  return taken;
}

function lives(rules: Rules, state: State, worker: OwnCapsule, { go, end, send }: Turn) {
  const { operator } = rules;
  const { capsule } = worker;
  switch (worker.at) {
    case 'add finalizer': {
      if (state.capsule !== capsule) return end('conflict');
      const changed = { ...capsule, finalizer: true };
      return go({ ...state, capsule: changed }, bounded(rules, { ...worker, capsule: changed }));
    }
    case 'create namespace':
      if (state.namespace) return end('there is one');
      return go(
        { ...state, namespace: { owner: capsule.uid, going: false } },
        { ...worker, namespace: undefined, at: 'read principal' },
      );
    case 'read principal': {
      const { principal } = state;
      const act = operator.principal(capsule, principal);
      if (act === 'refuse') return end('refused');
      if (act !== 'keep') return go(state, { ...worker, principal, at: `${act} principal` });
      const known = { ...worker, principal };
      if (!principal?.url) return go(state, { ...known, at: 'send provision' });
      return go(state, capsule.ready ? undefined : { ...worker, at: 'tell capsule ready' });
    }
    case 'create principal': {
      if (state.principal) return end('there is one');
      const [owner, token] = [capsule.uid, state.tokens + 1];
      const principal = { owner, token, url: false, released: 0, retained: false } as const;
      return go({ ...state, principal, tokens: token }, { ...worker, principal, at: 'send provision' });
    }
    case 'adopt principal': {
      if (!worker.principal || state.principal !== worker.principal) return end('conflict');
      const taken = { owner: capsule.uid, released: 0, retained: false, url: false } as const;
      const principal = { ...worker.principal, ...taken };
      return go({ ...state, principal }, { ...worker, principal, at: 'send provision' });
    }
    case 'send provision':
      return send('provision', worker.principal?.token ?? 0);
    case 'note url': {
      if (!worker.principal || state.principal !== worker.principal) return end('conflict');
      const principal = { ...worker.principal, url: true };
      const next = { ...worker, principal: undefined, at: 'tell capsule ready' };
      return go({ ...state, principal }, capsule.ready ? undefined : next);
    }
    case 'tell capsule ready':
      if (state.capsule?.uid !== capsule.uid) return end('it is gone');
      return go({ ...state, capsule: { ...state.capsule, ready: true } }, undefined);
    case 'look for orphan': {
      const own = worker.assistant;
      const there = [state.deployment?.owner, state.documents].includes(own?.uid);
      if (!own || !there || state.assistant?.uid === own.uid) return end('it is none');
      return go(state, takeAway(rules, { ...worker, assistant: own }));
    }
    default:
      return undefined;
  }
}

/** What a Capsule's work does with an answer of the broker. */
export function capsuleHears(rules: Rules, worker: Worker, answer: Answer): Worker | undefined {
  switch (worker.at) {
    case 'wait provision':
      return answer === 'ok' ? { ...worker, at: 'note url' } : undefined;
    case 'wait drop':
      return answer === 'ok' || answer === 'forbidden' ? { ...worker, at: 'send finalize' } : undefined;
    default: {
      if (answer !== 'ok' && answer !== 'absent') return undefined;
      return worker.principal ? { ...worker, at: 'mark finalized' } : outside(rules, worker);
    }
  }
}
