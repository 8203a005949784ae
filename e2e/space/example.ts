import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parse } from 'yaml';
import type { Step } from '../progress/index.ts';
import type { Kube, KubeObject } from './kube.ts';

const EXAMPLES = resolve(import.meta.dirname, '../../manifests/examples');
const READY_WITHIN_MS = 180_000;

async function example(file: string): Promise<KubeObject> {
  return parse(await readFile(resolve(EXAMPLES, file), 'utf8')) as KubeObject;
}

/** Applies the Capsule `household` and the Assistant `ledger`, whose image is given the cluster's name for it. */
export async function applyExamples(kube: Kube, namespace: string, image: string): Promise<void> {
  const household = await example('household.yaml');
  const ledger = await example('ledger.yaml');
  const placed = (object: KubeObject) => ({ ...object, metadata: { ...object.metadata, namespace } });
  await kube.apply(placed(household), { ...placed(ledger), spec: { ...ledger['spec'], image } });
}

/** Waits until the object says that it is Ready, telling meanwhile what it says instead. */
export async function waitReady(
  kube: Kube,
  kind: string,
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
    if (
      object !== undefined &&
      ready?.status === 'True' &&
      object['status'].observedGeneration === object.metadata.generation
    ) {
      step.note('');
      return object;
    }
    const saying = ready === undefined ? 'nothing yet' : `${ready.reason}: ${ready.message}`;
    step.note(saying);
    if (performance.now() > deadline) throw new Error(`${kind} ${name} says ${saying}`);
    await pause(200);
  }
}

/** What the ledger told through its Service. */
export interface Story {
  readonly namespace: string;
  readonly entry: unknown;
  readonly balances: unknown;
  readonly kernel: string;
}

/** Posts an entry (once, whatever number of times it runs), reads the balances back, asks for the kernel it sees. */
export async function tellStory(kube: Kube, namespace: string): Promise<Story> {
  const entry = {
    description: 'Groceries, paid by card',
    idempotency_key: 'the-first-entry',
    lines: [
      { account: 'expenses:groceries', currency: 'EUR', amount: '42.50' },
      { account: 'assets:bank', currency: 'EUR', amount: '-42.50' },
    ],
  };
  await kube.proxy(namespace, 'ledger:8080', '/entries', entry);
  const { balances } = (await kube.proxy(namespace, 'ledger:8080', '/balances')) as { balances: unknown };
  const about = (await kube.proxy(namespace, 'ledger:8080', '/')) as { kernel: string };
  return { namespace, entry, balances, kernel: about.kernel };
}
