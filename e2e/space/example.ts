import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parse } from 'yaml';
import type { Step } from '../progress/index.ts';
import type { Kube } from './kube.ts';
import type { KubeObject } from './kube-object.ts';
import { ADMINISTRATOR, type Release } from './release.ts';
import { symptoms } from './rollout.ts';

const EXAMPLES = resolve(import.meta.dirname, '../../manifests/examples');
const READY_WITHIN_MS = 600_000;
const ANSWER_WITHIN_MS = 20_000;

async function example(file: string): Promise<KubeObject> {
  return parse(await readFile(resolve(EXAMPLES, file), 'utf8')) as KubeObject;
}

/**
 * Applies the Capsule `household`, the Assistant `ledger` with the cluster's reference of its image, and the account
 * that the release makes an administrator in the console.
 */
export async function applyExamples(kube: Kube, release: Release, image: string): Promise<void> {
  const { namespace } = release;
  const metadata = { name: ADMINISTRATOR, namespace };
  await kube.apply({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata,
    automountServiceAccountToken: false,
  });
  const household = await example('household.yaml');
  const ledger = await example('ledger.yaml');
  const placed = (object: KubeObject) => ({ ...object, metadata: { ...object.metadata, namespace } });
  await kube.apply(placed(household), { ...placed(ledger), spec: { ...ledger['spec'], image } });
}

/** Waits until the object is Ready, and shows its condition meanwhile. */
export async function waitReady(
  kube: Kube,
  kind: 'capsule' | 'assistant',
  name: string,
  namespace: string,
  step: Step,
): Promise<KubeObject> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const object = await kube.get(kind, name, namespace);
    const ready = object?.['status']?.conditions?.find(
      (condition: { type: string }) => condition.type === 'Ready',
    );
    const current = object?.['status']?.observedGeneration === object?.metadata.generation;
    if (object !== undefined && ready?.status === 'True' && current) {
      step.note('');
      return object;
    }
    const saying = ready === undefined ? 'it has no condition yet' : `${ready.reason}: ${ready.message}`;
    step.note(saying);
    if (performance.now() > deadline) {
      const places = [namespace, ...(await capsuleNamespaces(kube, namespace))];
      throw new Error(
        [`${kind} ${name} is not Ready: ${saying}`, ...(await symptoms(kube, places))].join('\n'),
      );
    }
    await pause(200);
  }
}

async function capsuleNamespaces(kube: Kube, namespace: string): Promise<readonly string[]> {
  const capsules = await kube.list('capsules', namespace);
  return capsules.flatMap((capsule) => capsule['status']?.namespace ?? []);
}

export interface Line {
  readonly account: string;
  readonly currency: string;
  readonly amount: string;
}

/** What the ledger answered through its Service. */
export interface Demo {
  readonly namespace: string;
  readonly entry: { readonly description: string; readonly lines: readonly Line[] };
  readonly balances: readonly (Omit<Line, 'amount'> & { readonly balance: string })[];
  readonly kernel: string;
}

/** A request to the ledger: POST with a body, otherwise GET. */
export type Ask = (path: string, body?: unknown) => Promise<unknown>;

const throughProxy =
  (kube: Kube, namespace: string): Ask =>
  (path, body) =>
    kube.proxy(namespace, 'ledger:8080', path, body);

/** Posts an entry (once, however often it runs), reads the balances, and asks for the kernel that the ledger sees. */
export async function runDemo(
  kube: Kube,
  namespace: string,
  ask: Ask = throughProxy(kube, namespace),
): Promise<Demo> {
  const entry = {
    description: 'Groceries, paid by card',
    idempotency_key: 'the-first-entry',
    lines: [
      { account: 'expenses:groceries', currency: 'EUR', amount: '42.50' },
      { account: 'assets:bank', currency: 'EUR', amount: '-42.50' },
    ],
  };
  await answered(() => ask('/entries', entry));
  const { balances } = (await ask('/balances')) as Pick<Demo, 'balances'>;
  const { kernel } = (await ask('/')) as Pick<Demo, 'kernel'>;
  return { namespace, entry, balances, kernel };
}

/** The API server's proxy learns of a ready pod a moment later than others. */
async function answered<T>(ask: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + ANSWER_WITHIN_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await pause(200);
    }
  }
}
