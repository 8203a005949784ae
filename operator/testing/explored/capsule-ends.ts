/** The operator's work on a Capsule that goes, in the order of capsule/finalize.ts and release.ts. */
import type { Step } from '../../../testing/explore.ts';
import { authority } from './broker.ts';
import { appDropIsOrdered, capsuleKeeps, keptLife, opens, type Rules } from './rules.ts';
import type { State, Thing, Worker } from './state.ts';

export type Go = (to: State, next: Worker | undefined, wrong?: string) => Step<State>;
export type End = (why: string) => Step<State>;
export type Send = (kind: 'provision' | 'drop' | 'finalize', token: number) => Step<State>;
/** What a step of a worker's may come to. */
export interface Turn {
  readonly go: Go;
  readonly end: End;
  readonly send: Send;
}
export type OwnCapsule = Worker & { readonly capsule: Thing };

export function capsuleGoes(rules: Rules, state: State, worker: OwnCapsule, turn: Turn) {
  return (
    asks(rules, state, worker, turn) ??
    releases(rules, state, worker, turn) ??
    leaves(rules, state, worker, turn)
  );
}

function asks(rules: Rules, state: State, worker: OwnCapsule, { go, end }: Turn): Step<State> | undefined {
  const { is, operator } = rules;
  const { capsule } = worker;
  switch (worker.at) {
    case 'ask of capsule': {
      if (state.capsule?.uid !== capsule.uid) return end('it is gone');
      if (worker.assistant?.deleted === 0) return go(state, { ...worker, at: 'delete assistant' });
      const fate = operator.capsuleFate(state.now, state.grace, capsule, state.capsule);
      const wrong =
        fate === 'drop' && capsuleKeeps(state, capsule, state.capsule)
          ? 'a Capsule is to be dropped that is kept'
          : undefined;
      const left = worker.assistant && !is('drops a Capsule before its Assistants are gone');
      if (fate === 'grace' || left) return go(state, undefined, wrong);
      const to = fate === 'drop' ? { ...state, kept: 0 } : state;
      return go(to, { ...worker, assistant: undefined, fate, at: 'read holdings' }, wrong);
    }
    case 'delete assistant': {
      const { assistant } = state;
      const other = assistant?.uid !== worker.assistant?.uid;
      if (!assistant || assistant.deleted > 0) return go(state, undefined);
      if (other && !is('deletes whichever Assistant has the name')) return go(state, undefined);
      const wrong =
        other && state.capsule?.deleted === 0 ? 'an Assistant is deleted that nobody deleted' : undefined;
      const deleted = { ...assistant, deleted: state.now + 1 };
      return go({ ...state, assistant: assistant.finalizer ? deleted : undefined }, undefined, wrong);
    }
    default:
      return undefined;
  }
}

function releases(
  rules: Rules,
  state: State,
  worker: OwnCapsule,
  { go, end, send }: Turn,
): Step<State> | undefined {
  const { is, operator } = rules;
  const { capsule } = worker;
  switch (worker.at) {
    case 'read holdings': {
      const principal = operator.ownsPrincipal(capsule, state.principal) ? state.principal : undefined;
      const next = { ...worker, principal };
      const early = is('takes a principal away before the broker is done') && principal;
      if (worker.fate === 'retain') return go(state, keeping(rules, next));
      if (!operator.mustRelease(capsule, principal)) return go(state, outside(rules, next));
      if (early) return go({ ...state, principal: undefined }, { ...next, at: 'send drop' });
      if (!principal) return go(state, { ...next, at: 'send finalize' });
      const begun = operator.releaseOf(principal) === 'begun';
      return go(state, { ...next, at: begun ? 'send drop' : 'mark begun' });
    }
    case 'ask of broker': {
      const inForce = authority(rules, state, worker.principal?.token ?? 0, 'apps') !== undefined;
      return go(state, inForce ? outside(rules, worker) : { ...worker, fate: 'drop', at: 'send drop' });
    }
    case 'mark begun': {
      if (!worker.principal || state.principal !== worker.principal) return end('conflict');
      const principal = { ...worker.principal, released: 1 } as const;
      return go({ ...state, principal }, { ...worker, principal, at: 'send drop' });
    }
    case 'send drop':
      return send('drop', worker.principal?.token ?? 0);
    case 'send finalize':
      return send('finalize', 0);
    case 'mark finalized': {
      const seen =
        is('marks whatever principal is there as finalized') || state.principal === worker.principal;
      if (!seen || !state.principal) return end('conflict');
      const principal = { ...state.principal, released: 2 } as const;
      return go({ ...state, principal }, outside(rules, { ...worker, principal }));
    }
    default:
      return undefined;
  }
}

function leaves(rules: Rules, state: State, worker: OwnCapsule, { go, end }: Turn): Step<State> | undefined {
  const { is } = rules;
  const { capsule } = worker;
  switch (worker.at) {
    case 'delete namespace': {
      const { namespace } = state;
      if (namespace?.owner !== capsule.uid) return end('it is gone');
      return go({ ...state, namespace: { ...namespace, going: true } }, undefined);
    }
    case 'retain principal': {
      const seen = is('lets go of whatever principal is there') || state.principal === worker.principal;
      if (!seen || !state.principal) return end('conflict');
      // Nobody is told anything by this, and the word may be Drop by now, read by who leads: what is kept is promised by the end
      // of the deletion, which takes the Capsule as it was seen.
      const principal = { ...state.principal, retained: true };
      return go({ ...state, principal }, { ...worker, principal: undefined, at: 'remove finalizer' });
    }
    case 'remove principal': {
      const same = state.principal?.owner === worker.principal?.owner;
      const principal = same ? undefined : state.principal;
      return go({ ...state, principal }, { ...worker, principal: undefined, at: 'remove finalizer' });
    }
    case 'remove finalizer': {
      const seen = is('lets a Capsule go whatever it says by now')
        ? state.capsule?.uid === capsule.uid
        : state.capsule === capsule;
      if (!seen) return end('conflict');
      const to: State = { ...state, capsule: undefined };
      if (worker.fate === 'retain') {
        const kept = appDropIsOrdered(state) ? state.kept : keptLife(state);
        return go({ ...to, kept }, undefined, notKept(rules, state, capsule));
      }
      const forced = state.left.forced < rules.bounds.forced;
      return go(to, undefined, forced ? undefined : leftBehind(rules, state, capsule));
    }
    default:
      return undefined;
  }
}

function leftBehind({ bounds }: Rules, state: State, { uid }: Thing): string | undefined {
  const { principal } = state;
  // What an earlier one left to be kept, and this one had not taken up when it was looked for, is not its own. Where that comes
  // late the next Capsule of the name is told (PrincipalConflict).
  const isLate = state.left.successions < bounds.successions && principal?.released === 0;
  if (principal?.owner === uid ? isLate : principal?.retained) return undefined;
  if (state.issued.some(({ url }) => opens(state, url)))
    return 'the deletion of a Capsule ends, and its data is open';
  return state.register?.token ? 'the deletion of a Capsule ends, and its principal is in force' : undefined;
}

/** Its Event says that all is kept: the next Capsule of the name is to find it. */
function notKept({ broker }: Rules, { principal, register, retired }: State, { uid }: Thing) {
  if (principal?.owner !== uid) return undefined;
  const dropping = register?.token === principal.token && !broker.mayAct(register, 'apps');
  return dropping || (retired & (1 << principal.token)) !== 0
    ? 'a Capsule goes as kept, and its data is dropped'
    : undefined;
}

/** Once a drop was sent, only the broker knows whether a word to keep is in time. */
function keeping(rules: Rules, worker: Worker): Worker | undefined {
  const { principal } = worker;
  const blind = rules.is('believes a word to keep that comes after its drop');
  const released = principal && !blind ? rules.operator.releaseOf(principal) : 'not begun';
  if (released === 'begun') return { ...worker, at: 'ask of broker' };
  return outside(rules, released === 'done' ? { ...worker, fate: 'drop' } : worker);
}

/** What is left once the brokers are done: namespace, principal, finalizer. */
export function outside({ operator }: Rules, worker: Worker): Worker | undefined {
  const { capsule, namespace, principal, fate } = worker;
  const next = { ...worker, namespace: undefined };
  if (capsule && namespace && operator.ownsNamespace(capsule, namespace))
    return namespace.going ? undefined : { ...next, principal: undefined, at: 'delete namespace' };
  if (principal && fate === 'retain' && !principal.retained) return { ...next, at: 'retain principal' };
  if (principal && fate !== 'retain') return { ...next, at: 'remove principal' };
  return { ...next, principal: undefined, at: 'remove finalizer' };
}
