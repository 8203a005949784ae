import * as z from 'zod';
import { KubernetesError } from '../kubernetes/client.ts';
import type { Visit } from '../visit.ts';
import { type Collection, collectionsIn, collectionsOf } from './collections.ts';
import { version } from './fields.ts';
import type { Entry } from './tar.ts';

/** The limits of one archive. */
export interface Bounds {
  readonly ms: number;
  readonly items: number;
  readonly bytes: number;
  readonly capsules: number;
}
export const BOUNDS: Bounds = { ms: 60_000, items: 2_000, bytes: 64 * 1024 * 1024, capsules: 20 };

/** Items per page: a manifest may have a quarter of a MiB, and four archives are created at the same time. */
const PAGE = '50';
const page = z.object({
  metadata: z.object({ continue: z.string().optional() }).optional(),
  items: z.array(z.unknown()).nullish(),
});

/** Why a file is missing or incomplete. */
type Missing = 'not allowed' | 'not there' | 'no answer' | 'too much' | 'out of time';

interface Told {
  readonly file: string;
  readonly items?: number;
  /** The number of objects without even a name. */
  readonly unreadable?: number;
  readonly missing?: Missing;
}

interface Gathered {
  readonly items: readonly unknown[];
  readonly told: Told;
}

/**
 * The files of an archive of the Space, one after the other, each read with the person's rights and reduced to the
 * permitted fields.
 */
export async function* archive(
  visit: Visit,
  now: () => Date,
  bounds: Bounds = BOUNDS,
): AsyncGenerator<Entry> {
  const began = now().getTime();
  const contents: Told[] = [];
  let bytes = 0;
  const isOver = () => now().getTime() - began > bounds.ms;
  const entry = (file: string, value: unknown, told: Told): Entry | undefined => {
    const content = typeof value === 'string' ? value : `${JSON.stringify(value, null, 1)}\n`;
    const isTooMuch = bytes + Buffer.byteLength(content) > bounds.bytes;
    contents.push(isTooMuch ? { file, missing: 'too much' } : told);
    if (isTooMuch) return undefined;
    bytes += Buffer.byteLength(content);
    return { name: file, content };
  };
  const gather = async function* (collection: Collection): AsyncGenerator<Entry, readonly unknown[]> {
    const { items, told } = isOver()
      ? { items: [], told: { file: collection.file, missing: 'out of time' } as const }
      : await gathered(visit, collection, bounds, isOver);
    const made = told.items === undefined ? void contents.push(told) : entry(collection.file, items, told);
    if (made) yield made;
    return items;
  };

  yield { name: 'README.txt', content: README };
  yield* versionOf(visit, entry);
  let troubled: readonly string[] = [];
  for (const collection of collectionsOf(visit.names)) {
    const items = yield* gather(collection);
    if (collection.act.resource === 'capsules') troubled = namespacesOf(items);
  }
  for (const namespace of troubled.slice(0, bounds.capsules))
    for (const collection of collectionsIn(namespace)) yield* gather(collection);
  const rest = troubled.length - bounds.capsules;
  if (rest > 0) contents.push({ file: `${rest} more namespaces of Capsules`, missing: 'too much' });
  yield {
    name: 'contents.json',
    content: `${JSON.stringify({ made: now().toISOString(), by: visit.session.user, files: contents }, null, 1)}\n`,
  };
}

const README = `The state of a Space as one person could see it, with their own rights, when this archive was created.

contents.json lists the files, and says why others are missing. Every object is reduced to a fixed list of fields: names, labels
of the Space, times, versions, images, counts, states and reasons. Text that somebody wrote freely and everything secret is left
out: Secrets, values of environment variables, arguments, annotations, manifests except id, version and hosts, messages of
conditions and notes of Events. docs/operator.md explains the reasons. Namespaces of Capsules that are not Ready come first.
`;

async function gathered(
  visit: Visit,
  { file, act, path, item }: Collection,
  { items: most }: Bounds,
  isOver: () => boolean,
): Promise<Gathered> {
  const items: unknown[] = [];
  let [token, unreadable] = ['', 0];
  try {
    if (!(await visit.may({ ...act, verb: 'list' })))
      return { items: [], told: { file, missing: 'not allowed' } };
    do {
      const query: Record<string, string> = token === '' ? { limit: PAGE } : { limit: PAGE, continue: token };
      const answer = page.parse(await visit.ask({ path, query }));
      for (const one of answer.items ?? []) {
        const parsed = item.safeParse(one);
        if (parsed.success) items.push(parsed.data);
        else unreadable += 1;
      }
      token = answer.metadata?.continue ?? '';
    } while (token !== '' && items.length < most && !isOver());
  } catch (error) {
    return { items: [], told: { file, missing: missingBy(error) } };
  }
  const told = { file, items: items.length, ...(unreadable === 0 ? {} : { unreadable }) };
  if (token === '') return { items, told };
  return { items, told: { ...told, missing: items.length < most ? 'out of time' : 'too much' } };
}

function missingBy(error: unknown): Missing {
  if (!(error instanceof KubernetesError)) throw error;
  if (error.status === 403) return 'not allowed';
  return error.status === 404 ? 'not there' : 'no answer';
}

type MakeEntry = (file: string, value: unknown, told: Told) => Entry | undefined;

async function* versionOf(visit: Visit, entry: MakeEntry): AsyncGenerator<Entry> {
  const answer = await visit.ask({ path: '/version' }).catch(() => undefined);
  const told = version.safeParse(answer).data;
  const made = told && entry('version.json', told, { file: 'version.json', items: 1 });
  if (made) yield made;
}

const capsuleView = z.object({
  status: z.object({
    namespace: z.string().regex(/^[a-z0-9-]{1,63}$/),
    conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
  }),
});

/** Namespaces of Capsules, those that are not Ready first. */
function namespacesOf(capsules: readonly unknown[]): readonly string[] {
  const known = capsules.flatMap((one) => capsuleView.safeParse(one).data?.status ?? []);
  const isReady = ({ conditions }: (typeof known)[number]) =>
    conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
  return [...known.filter((one) => !isReady(one)), ...known.filter(isReady)].map(
    ({ namespace }) => namespace,
  );
}
