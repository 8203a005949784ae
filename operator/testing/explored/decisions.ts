/** What operator and broker decide at each step, by their own functions, or as a defect has it. */
import { createHash } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import { checkManifest } from '@space/manifests';
import { databaseUrl, derivationKey, passwordOf } from '../../../brokers/db/core/credentials.ts';
import {
  type CreateDecision,
  type DatabaseRow,
  type DropDecision,
  decideCreate,
  decideDrop,
} from '../../../brokers/db/core/decide.ts';
import { databaseName } from '../../../brokers/db/core/names.ts';
import {
  type CapsuleRow,
  decideFinalize,
  decideProvision,
  mayAct,
} from '../../../brokers/kit/principals/decide.ts';
import { isRetained, registeredOwner } from '../../assistant/claim.ts';
import { decideFate, ownsDatabase, staysWithCapsule } from '../../assistant/fate.ts';
import { describeWorkload } from '../../assistant/identity.ts';
import { planAssistant } from '../../assistant/plan.ts';
import { deletionPolicyOf } from '../../assistant/retain.ts';
import { decideNamespace, decidePrincipal, ownsNamespace } from '../../capsule/decide.ts';
import { decideFate as decideCapsuleFate, mustRelease, ownPrincipal, releaseOf } from '../../capsule/fate.ts';
import { yes } from '../../conditions.ts';
import { names } from '../names.ts';
import type { Defect } from './bounds.ts';
import * as objects from './objects.ts';
import {
  type Claim,
  DROP,
  type Namespace,
  type Principal,
  RETAIN,
  type Register,
  type Row,
  SILENT,
  type Thing,
  type Url,
  type Word,
} from './state.ts';

const WORKLOAD = { capsule: objects.CAPSULE, app: objects.ASSISTANT };
const NAME_KEY = new Secret(createHash('sha256').update('names').digest());
const KEY = derivationKey(createHash('sha256').update('derivation').digest());

/** Numbers texts in the order in which they are first seen; 0 is none. */
function numbered() {
  const ids = new Map<string, number>();
  return (text: string): number => {
    const id = ids.get(text) ?? ids.size + 1;
    ids.set(text, id);
    return id;
  };
}
const urlIds = numbered();
const remembered = new Map<number, number>();

function once(key: number, make: () => number): number {
  const known = remembered.get(key);
  if (known !== undefined) return known;
  const made = make();
  remembered.set(key, made);
  return made;
}

const epochText = (epoch: number) => epoch.toString(16).padStart(12, '0');
const nameText = (epoch: number) => databaseName(NAME_KEY, 'space', WORKLOAD, epochText(epoch));

/** The URL of the database that was made in one epoch, with the password of a generation and of its epoch. */
export function urlOf(made: number, generation: number, epoch: number): Url {
  return once(made * 4096 + generation * 64 + epoch + 1, () => {
    const password = passwordOf(KEY, 'space', WORKLOAD, { generation, epoch: epochText(epoch) });
    return urlIds(databaseUrl(nameText(made), password, { host: 'postgres', port: 5432 }));
  });
}

const rows = new WeakMap<Row, DatabaseRow>();
function rowOf(row: Row): DatabaseRow {
  const known = rows.get(row);
  if (known) return known;
  const { state, incarnation, generation, epoch, due } = row;
  const made: DatabaseRow = {
    ...{ state, incarnation, generation, name: `${row.name}`, epoch: epochText(epoch) },
    ...{ keyId: KEY.id, rotationDue: due, evicting: false, closed: false },
  };
  rows.set(row, made);
  return made;
}

const capsuleRow = ({ state, incarnation }: Register): CapsuleRow => ({
  state,
  incarnation,
  principal: null,
});

/** What the broker does. */
export function brokerDecisions(defect: Defect | undefined) {
  const is = (one: Defect) => defect === one;
  return {
    provision: (register: Register | undefined, same: boolean) =>
      decideProvision(register && capsuleRow(register), same),
    mayAct: (register: Register, operation: 'apps' | 'drop') =>
      mayAct(register.state, operation) ||
      (is('creates in a Capsule that is being dropped') && register.state === 'dropping'),
    finalize: (register: Register | undefined) => decideFinalize(register && capsuleRow(register)),
    create(row: Row | undefined): CreateDecision {
      const decision = decideCreate(row && rowOf(row));
      if (is('issues the URL of what is being dropped') && row?.state === 'dropping')
        return { kind: 'existing' };
      if (is('begins its generations again') && decision.kind === 'create')
        return { ...decision, generation: 1 };
      if (is('makes anew what was kept') && decision.kind === 'existing')
        return { kind: 'create', generation: (row?.generation ?? 0) + 1 };
      if (is('keeps its generation when it rotates') && decision.kind === 'rotate')
        return { ...decision, generation: row?.generation ?? 1 };
      return decision;
    },
    drop: (row: Row | undefined, incarnation: number): DropDecision =>
      decideDrop(row && rowOf(row), incarnation),
  };
}

/** What it says itself of everything that a plan looks at besides. */
const PLANNED = (() => {
  const check = checkManifest(objects.MANIFEST);
  if (!check.ok) throw new Error('the manifest of the model is not valid');
  const assistant = objects.assistant({
    ...{ uid: 1, finalizer: false, deleted: 0, word: SILENT, ready: false, told: SILENT },
  });
  return { check, workload: describeWorkload(names, assistant, check.manifest) };
})();

export interface Read {
  readonly capsule: Thing | undefined;
  readonly assistant: Thing | undefined;
  readonly claim: Claim | undefined;
}

/** What the operator does. */
export function operatorDecisions(defect: Defect | undefined) {
  const is = (one: Defect) => defect === one;
  const rules = (grace: number) => ({
    names: { ...names, graceMs: grace * objects.HOUR_MS },
  });
  const clocks = (now: number) => {
    const at = Date.parse(objects.time(now));
    return { own: at, startedAt: 0, steady: at, server: at };
  };
  const plans = new Map<string, { accepted: boolean; run: boolean }>();
  const fates = new Map<string, 'retain' | 'drop' | 'grace'>();
  const thing = (one: Thing | undefined) =>
    one ? `${one.uid}${one.finalizer}${one.deleted}${one.word}${one.ready}${one.told}` : '-';

  return {
    namespace: (capsule: Thing, live: Namespace | undefined) =>
      decideNamespace(objects.capsule(capsule), objects.NAMESPACE, live && objects.namespace(live)).act,
    ownsNamespace: (capsule: Thing, live: Namespace) =>
      ownsNamespace(objects.capsule(capsule), objects.namespace(live)),
    principal: (capsule: Thing, secret: Principal | undefined) =>
      decidePrincipal(objects.capsule(capsule), secret && objects.principal(secret)).act,
    ownsPrincipal: (capsule: Thing, secret: Principal | undefined) =>
      ownPrincipal(objects.capsule(capsule), secret && objects.principal(secret)) !== undefined,
    mustRelease: (capsule: Thing, secret: Principal | undefined) =>
      mustRelease(objects.capsule(capsule), 'DatabaseReady', secret && objects.principal(secret)),
    releaseOf: (secret: Principal) => releaseOf(objects.principal(secret)),
    isRetained: (claim: Claim) => isRetained(objects.claim(claim)),
    policy: (assistant: Thing, capsule: Thing | undefined): Word =>
      deletionPolicyOf(objects.assistant(assistant), capsule && objects.capsule(capsule)) === 'Retain'
        ? RETAIN
        : DROP,

    /** Whether an Assistant is understood and has its id, and whether nothing stands in its way. */
    plan({ capsule, assistant, claim }: Read & { assistant: Thing }) {
      const owner = claim && !claim.retained ? claim.owner : 0;
      const key = `${thing(assistant)} ${thing(capsule)} ${owner} ${claim?.url}`;
      const known = plans.get(key);
      if (known) return known;
      const registered =
        is('gives a claim that is not retained to the next') && owner !== assistant.uid
          ? undefined
          : registeredOwner(claim && objects.claim(claim));
      const object = objects.assistant(assistant);
      const { accepted, run } = planAssistant({
        ...PLANNED,
        assistant: object,
        capsule: capsule && objects.capsule(capsule),
        sandbox: yes('Ready', ''),
        inputsBound: yes('Ready', ''),
        neighbours: [object],
        claim: { registered, rivals: [object] },
        provisioned: claim?.url !== 0 && owner === assistant.uid,
        objects: undefined,
      });
      plans.set(key, { accepted, run });
      return { accepted, run };
    },

    owns: ({ assistant, claim, rivals }: Read & { assistant: Thing; rivals: readonly Thing[] }) =>
      is('drops for whoever is deleted') ||
      ownsDatabase(
        objects.assistant(assistant),
        claim && objects.claim(claim),
        rivals.map(objects.assistant),
      ),
    stays: (assistant: Thing, capsule: Thing | undefined) =>
      staysWithCapsule(objects.assistant(assistant), capsule && objects.capsule(capsule)),

    /** Decides about an Assistant's data by what was read again. */
    fate(now: number, grace: number, known: Thing, asked: Thing | undefined, capsule: Thing | undefined) {
      const key = `a${now} ${grace} ${thing(known)} ${thing(asked)} ${thing(capsule)}`;
      const decided = fates.get(key);
      if (decided) return decided;
      const word = (one: Thing | undefined) => one && objects.assistant(one);
      const own = asked?.uid === known.uid ? asked : known;
      const going =
        is('takes the word of the Assistant while its Capsule goes') && own.word !== SILENT
          ? undefined
          : capsule;
      const { retained, grace: waits } = decideFate(rules(grace), clocks(now), objects.assistant(known), {
        asked: word(asked),
        capsule: going && objects.capsule(going),
      });
      const inGrace = is('counts the grace from its wrong side')
        ? waits === undefined && grace > 0
        : waits !== undefined;
      const fate = retained ? 'retain' : inGrace ? 'grace' : 'drop';
      fates.set(key, fate);
      return fate;
    },

    /** Decides about everything that a Capsule has. */
    capsuleFate(now: number, grace: number, known: Thing, asked: Thing | undefined) {
      const key = `c${now} ${grace} ${thing(known)} ${thing(asked)}`;
      const decided = fates.get(key);
      if (decided) return decided;
      const context = rules(is('drops a Capsule in its grace') ? 0 : grace);
      const { retain, grace: waits } = decideCapsuleFate(
        context,
        clocks(now),
        objects.capsule(known),
        asked && objects.capsule(asked),
      );
      const keeps = retain && !is('drops a Capsule that keeps');
      const fate = keeps ? 'retain' : waits ? 'grace' : 'drop';
      fates.set(key, fate);
      return fate;
    },
  };
}
export type OperatorDecisions = ReturnType<typeof operatorDecisions>;
export type BrokerDecisions = ReturnType<typeof brokerDecisions>;
