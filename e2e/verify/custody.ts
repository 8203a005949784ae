/**
 * Checks where the value of a stored input is: sealed in the operator's namespace, and in nothing that a Capsule or
 * its pods can read.
 */
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import type { Place } from './bystanders.ts';
import { canaryValue, INPUT, PROBER } from './prober.ts';
import type { Check } from './report.ts';
import { USE_INPUT } from './within.ts';

/** Prints everything that a container was given, and everything that its processes have. */
const EVERYTHING = 'env; cat /proc/*/environ; find /etc/space /tmp -type f -exec cat {} +; true';
const KINDS = ['secrets', 'configmaps', 'pods', 'deployments', 'events'];

interface Owner {
  readonly name: string;
  readonly namespace: string;
  readonly pod: KubeObject;
}

export interface Custody {
  readonly kube: Kube;
  readonly place: Place;
  readonly a: Owner;
  readonly b: Owner;
  readonly within: (of: Owner, argv: readonly string[]) => Promise<string>;
}

const decoded = (data: unknown) => Buffer.from(String(data), 'base64').toString('latin1');

/** The whole text of an object, including what it contains in encoded form. */
function wordsOf(object: KubeObject): string {
  const data = Object.values(object['data'] ?? {}).map(decoded);
  return [JSON.stringify(object), ...data, ...data.map(decoded)].join('\n');
}

/** The names of the texts that contain a value, as it is or in base64 as Kubernetes writes it. */
export const tracesOf = (value: string, texts: Readonly<Record<string, string>>): string[] =>
  Object.entries(texts)
    .filter(([, text]) => text.includes(value) || text.includes(Buffer.from(value).toString('base64')))
    .map(([where]) => where);

/** The objects that contain a value, among objects of namespaces in which people store no Secrets. */
export const holders = (value: string, objects: readonly KubeObject[]): string[] =>
  objects
    .filter((object) => tracesOf(value, { object: wordsOf(object) }).length > 0)
    .map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`);

export async function custodyCheck({ kube, place, a, b, within }: Custody): Promise<Check> {
  const value = canaryValue(place, a.name);
  const system = `${place.space}-system`;
  const places = [system, `${place.space}-services`, a.namespace, b.namespace];
  const everything = (of: Owner) => within(of, ['sh', '-c', EVERYTHING]);
  const [sealed, other, inA, inB, lists] = await Promise.all([
    kube.get('secret', `egress-${a.name}.${PROBER}`, system),
    kube.get('secret', `${PROBER}-egress`, b.namespace),
    everything(a),
    everything(b),
    Promise.all(places.flatMap((where) => KINDS.map((kind) => kube.list(kind, where)))),
  ]);
  const use = (path: string, token: string) => within(a, ['node', '-e', USE_INPUT, INPUT, path, token]);
  const [nobody, another, elsewhere] = await Promise.all([
    use('/v1/nothing', 'none'),
    use('/v1/nothing', decoded(other?.['data'].EGRESS_TOKEN)),
    use('/v1/other', 'own'),
  ]);
  const found = [
    ...tracesOf(value, { 'the pod of its own Assistant': inA, "another Capsule's pod": inB }),
    ...holders(value, lists.flat()),
  ];
  const isSealed = sealed?.['data']?.[INPUT] !== undefined;
  const isUsable = inA.includes(`INPUT_${INPUT.toUpperCase()}_URL=`);
  const refused = nobody === 'forbidden' && another === 'forbidden' && elsewhere === 'route_denied';
  return {
    name: 'custody',
    holds: found.length === 0 && isSealed && isUsable && refused,
    found: `a stored input is ${isSealed ? 'sealed' : 'NOT sealed'} in the operator's namespace, and its Assistant ${isUsable ? 'has' : 'does NOT have'} a URL for it; its value is ${found.length === 0 ? 'in none of the objects, environments and files that were searched' : `in ${found.join(', ')}`}; use without a credential: ${nobody}, with another Capsule's: ${another}, on another route: ${elsewhere}`,
  };
}
