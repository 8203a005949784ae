/** The operator's work on a Capsule, in the order of capsule/controller.ts, finalize.ts and release.ts. */
import type { Step } from '../../../testing/explore.ts';
import { takeAway } from './assistants.ts';
import { type Answer, jobOf } from './broker.ts';
import { capsuleKeeps, IDLE, LATE, opens, put, type Rules, step } from './rules.ts';
import { RETAIN, SILENT, type State, type Thing, type Worker } from './state.ts';

/** Begins to work on the Capsule as the store has it, where there is anything to do. */
export function beginCapsule(rules: Rules, state: State): Worker | undefined {
  const { capsule, assistant, namespace, deployment, pod } = state;
  if (!capsule) return undefined;
  const worker: Worker = { ...IDLE, capsule };
  if (capsule.deleted > 0) {
    if (!capsule.finalizer) return undefined;
    const seen = { ...worker, namespace, assistant };
    return { ...seen, at: assistant && assistant.deleted === 0 ? 'delete assistant' : 'ask of capsule' };
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
  const { is, operator } = rules;
  const { capsule } = worker;
  const name = `${slot === LATE ? 'late ' : ''}operator, capsule ${capsule?.uid}: ${worker.at}`;
  const go = (to: State, next: Worker | undefined, wrong?: string) => step(name, put(to, slot, next), wrong);
  const end = (why: string) => step(`${name}: ${why}`, put(state, slot, undefined));
  if (!capsule) return end('nothing to do');
  const send = (kind: 'provision' | 'drop' | 'finalize', token: number) =>
    go({ ...state, jobs: [...state.jobs, jobOf(kind, token, slot)] }, { ...worker, at: `wait ${kind}` });

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
      const principal = { owner, token, url: false, finalized: false, retained: false };
      return go({ ...state, principal, tokens: token }, { ...worker, principal, at: 'send provision' });
    }
    case 'adopt principal': {
      if (!worker.principal || state.principal !== worker.principal) return end('conflict');
      const principal = { ...worker.principal, owner: capsule.uid, retained: false, url: false };
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
    case 'delete assistant': {
      const { assistant } = state;
      const next = { ...worker, at: 'ask of capsule' };
      const other = assistant?.uid !== worker.assistant?.uid;
      if (!assistant || assistant.deleted > 0) return go(state, next);
      if (other && !is('deletes whichever Assistant has the name')) return go(state, next);
      const wrong =
        other && state.capsule?.deleted === 0 ? 'an Assistant is deleted that nobody deleted' : undefined;
      const deleted = { ...assistant, deleted: state.now + 1 };
      return go({ ...state, assistant: assistant.finalizer ? deleted : undefined }, next, wrong);
    }
    case 'ask of capsule': {
      const fate = operator.capsuleFate(state.now, state.grace, capsule, state.capsule);
      const wrong =
        fate === 'drop' && capsuleKeeps(state, capsule, state.capsule)
          ? 'a Capsule is to be dropped that is kept'
          : undefined;
      const left = worker.assistant && !is('drops a Capsule before its Assistants are gone');
      if (fate === 'grace' || left)
        return step(`${name}: ${fate}, waits`, put(state, slot, undefined), wrong);
      const to = fate === 'drop' ? { ...state, kept: 0 } : state;
      return go(to, { ...worker, assistant: undefined, fate, at: 'read holdings' }, wrong);
    }
    case 'read holdings': {
      const principal = operator.ownsPrincipal(capsule, state.principal) ? state.principal : undefined;
      const next = { ...worker, principal };
      const early = is('takes a principal away before the broker is done') && principal;
      if (worker.fate !== 'drop' || !operator.mustRelease(capsule, principal))
        return go(state, outside(rules, next));
      if (early) return go({ ...state, principal: undefined }, { ...next, at: 'send drop' });
      return go(state, { ...next, at: principal ? 'send drop' : 'send finalize' });
    }
    case 'send drop':
      return send('drop', worker.principal?.token ?? 0);
    case 'send finalize':
      return send('finalize', 0);
    case 'mark finalized': {
      const seen =
        is('marks whatever principal is there as finalized') || state.principal === worker.principal;
      if (!seen || !state.principal) return end('conflict');
      const principal = { ...state.principal, finalized: true };
      return go({ ...state, principal }, outside(rules, { ...worker, principal }));
    }
    case 'delete namespace': {
      const { namespace } = state;
      if (namespace?.owner !== capsule.uid) return end('it is gone');
      return go({ ...state, namespace: { ...namespace, going: true } }, undefined);
    }
    case 'retain principal': {
      if (!state.principal) return end('it is gone');
      const kept = state.row?.state === 'ready' ? state.row.life : state.kept;
      const principal = { ...state.principal, retained: true };
      return go({ ...state, principal, kept }, { ...worker, principal: undefined, at: 'remove finalizer' });
    }
    case 'remove principal': {
      const same = state.principal?.owner === worker.principal?.owner;
      const principal = same ? undefined : state.principal;
      return go({ ...state, principal }, { ...worker, principal: undefined, at: 'remove finalizer' });
    }
    case 'remove finalizer': {
      if (state.capsule !== capsule) return end('conflict');
      const forced = state.left.forced < rules.bounds.forced;
      const wrong = worker.fate === 'drop' && !forced ? leftBehind(state) : undefined;
      return go({ ...state, capsule: undefined }, undefined, wrong);
    }
    default:
      throw new Error(`no such step: ${worker.at}`);
  }
}

function leftBehind(state: State): string | undefined {
  if (state.issued.some(({ url }) => opens(state, url)))
    return 'the deletion of a Capsule ends, and its data is open';
  return state.register?.token ? 'the deletion of a Capsule ends, and its principal is in force' : undefined;
}

/** What is left once the brokers are done: namespace, principal, finalizer. */
function outside({ operator }: Rules, worker: Worker): Worker | undefined {
  const { capsule, namespace, principal, fate } = worker;
  const next = { ...worker, namespace: undefined };
  if (capsule && namespace && operator.ownsNamespace(capsule, namespace))
    return namespace.going ? undefined : { ...next, principal: undefined, at: 'delete namespace' };
  if (principal && fate === 'retain' && !principal.retained) return { ...next, at: 'retain principal' };
  if (principal && fate !== 'retain') return { ...next, at: 'remove principal' };
  return { ...next, principal: undefined, at: 'remove finalizer' };
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
