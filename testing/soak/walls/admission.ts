/** Removes or narrows each admission policy of the chart, its bindings and rules, one at a time, in a real API server. */
import type { KubeObject } from '../../../e2e/space/kube-object.ts';
import { startApiServer } from '../../api-server.ts';
import { openPolicyStore, type PolicyStore } from './admission/force.ts';
import { BINDINGS, changed, type Mutant, mutantsOf, ownName, POLICIES } from './admission/mutants.ts';
import { reasonOf } from './admission/reasons.ts';
import { record } from './admission/record.ts';
import { flippedOf, type Question, questionsOf } from './admission/replay.ts';
import type { Part, Tried } from './part.ts';

/** A file of tests whose questions are asked again, and by which policies they are judged: by the beginnings of their names. */
interface Source {
  readonly file: string;
  readonly policies: readonly string[];
  /** A pattern of test names: tests after which the others cannot be repeated are a source of their own. */
  readonly pattern?: string;
  readonly quick?: boolean;
}

const space = (file: string, ...policies: readonly string[]): Source => ({
  file: `e2e/space/${file}.test.ts`,
  policies,
});
const RELEASES = ['home-', 'space-'];
/** The word in `--only` that also selects each part of a rule. */
const FINE = 'fine';
const CLAIMED = 'where the API server does not write who made it';
const GENERATED = 'agrees with zod and ajv on';
const LET_IN = 'a pod that was let in';
const NO_CANARY = 'a canary that is gone';
const OPENED = 'an administrator opens the services';
const ENDED = 'the services’ namespace takes its walls';
const NO_LEASE = 'without a Lease';
const GOES = 'a namespace that goes takes its Assistants';
const SOURCES: readonly Source[] = [
  { ...space('approve', 'approve', 'installed-by'), pattern: `^(?!${CLAIMED})` },
  { ...space('approve', 'approve'), pattern: `${CLAIMED}.*it is nobody` },
  { ...space('approve', 'installed-by'), pattern: CLAIMED },
  { ...space('deploy', 'deploy'), pattern: `^(?!${GOES})` },
  { ...space('deploy', 'deploy'), pattern: GOES },
  space('protected-marks', 'protected-finalizers', 'protected-workloads'),
  space('protections', 'protected'),
  { ...space('fence', 'operator', 'reserved-workloads', 'protected-marks'), pattern: `^(?!${NO_LEASE})` },
  { ...space('fence', 'operator-lead'), pattern: NO_LEASE },
  { ...space('reserved', 'reserved'), pattern: `^(?!${OPENED}|${ENDED})` },
  { ...space('reserved', 'reserved-services'), pattern: OPENED },
  { ...space('reserved', 'reserved-walls'), pattern: ENDED },
  { ...space('sandbox-policy', 'sandbox'), pattern: `^(?!${NO_CANARY})`, quick: true },
  { ...space('sandbox-policy', 'sandbox'), pattern: NO_CANARY },
  { ...space('sandbox-policy', 'sandbox'), pattern: `${LET_IN}|the class.*is gone` },
  { ...space('sandbox-policy', 'sandbox'), pattern: `${LET_IN}|the class.*(is gone|with the handler)` },
  space('neighbours', 'operator', 'protected', 'reserved', 'deploy', 'approve'),
  {
    file: 'manifests/api-server.test.ts',
    policies: ['assistants', 'capsules'],
    pattern: `^(?!.*${GENERATED})`,
  },
];

type Verdicts = Map<string, { readonly mutant: Mutant; shown: string | undefined }>;

const policyOf = ({ spec, metadata }: KubeObject): string => spec.policyName ?? metadata.name;
const keyOf = ({ kind, name, edit }: Mutant) => JSON.stringify([kind, name, edit]);
const protectionOf = ({ kind, name }: Mutant) => (BINDINGS.has(kind) ? `binding of ${name}` : name);

export const admission: Part = {
  name: 'admission',
  async tryAll({ quick, only: words }) {
    const only = words.filter((word) => word !== FINE);
    const verdicts: Verdicts = new Map();
    const isWanted = (name: string) => only.length === 0 || only.some((word) => name.startsWith(word));
    for (const source of SOURCES) {
      const mayBeWanted = source.policies.some((one) =>
        only.some((word) => word.startsWith(one) || one.startsWith(word)),
      );
      if ((quick && !source.quick) || (only.length > 0 && !mayBeWanted)) continue;
      const isJudged = (name: string) =>
        source.policies.some((one) => name.startsWith(one)) && isWanted(name);
      await trySource(source, isJudged, verdicts, words.includes(FINE));
    }
    return [...verdicts.values()].map(
      ({ mutant, shown }): Tried => ({
        ...{ protection: protectionOf(mutant), change: mutant.change, shown },
        reason: shown === undefined ? reasonOf(mutant.name, mutant.change) : undefined,
      }),
    );
  },
};

async function trySource(
  { file, pattern }: Source,
  isJudged: (name: string) => boolean,
  verdicts: Verdicts,
  fine: boolean,
): Promise<void> {
  const server = await startApiServer();
  try {
    const force = openPolicyStore(server.client);
    const recorded = await record(server, file, pattern);
    const questions = await questionsOf(server.url, recorded, () => force.put());
    const objects = await force.list([...POLICIES, ...BINDINGS]);
    console.error(`${file}: ${questions.length} questions`);
    // If several Spaces match, one is chosen.
    const release = RELEASES.find((one) => objects.some(({ metadata }) => metadata.name.startsWith(one)));
    for (const object of objects)
      if (object.metadata.name.startsWith(release ?? '') && isJudged(ownName(object)))
        for (const mutant of mutantsOf(object).filter((one) => fine || one.fine === undefined))
          await tryOne(force, object, mutant, server.url, questions, verdicts);
  } finally {
    await server.stop();
  }
}

async function tryOne(
  force: PolicyStore,
  original: KubeObject,
  mutant: Mutant,
  url: string,
  questions: readonly Question[],
  verdicts: Verdicts,
): Promise<void> {
  const known = verdicts.get(keyOf(mutant));
  if (known?.shown !== undefined) return;
  await force.put({ original, instead: changed(original, mutant) });
  const [shown] = await flippedOf(url, questions, policyOf(original));
  verdicts.set(keyOf(mutant), { mutant, shown });
  console.error(`… ${protectionOf(mutant)} ${mutant.change}: ${shown ?? 'SURVIVED so far'}`);
}
