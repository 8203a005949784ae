/** Repeats recorded requests as dry runs; a different answer shows the change of a protection. */
import { type Answered, type Asked, type Recorded, send } from './record.ts';

/** Methods that admission policies check; they do not check reads. */
const WRITES: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);
const AT_ONCE = 8;
/** The number of repetitions, since the API server may name another of several refusing policies after it has read them again. */
const LOOKS = 6;

/** A request whose answer is the same each time, and the test that asked. */
export interface Question {
  readonly asked: Asked;
  readonly test: string;
  readonly status: number;
  /** The policy that refuses, with its message, if that is always the same. */
  readonly refusal: Refusal | undefined;
  /** The user that the API server records on it, if that is always the same. */
  readonly made: { readonly by: string | undefined } | undefined;
}

interface Refusal {
  readonly policy: string;
  readonly says: string;
}

/** Returns the recorded requests that still get the same answer: tests have changed objects meanwhile. */
export async function questionsOf(
  url: string,
  recorded: readonly Recorded[],
  readAnew: () => Promise<void>,
): Promise<readonly Question[]> {
  const groups = Map.groupBy(
    recorded.filter(({ asked: { method, path } }) => WRITES.has(method) && !path.endsWith('/token')),
    ({ asked }) => JSON.stringify(asked),
  );
  const asked = [...groups.values()].map((same) => ({ same, again: dryRun((same[0] as Recorded).asked) }));
  const answers = new Map(asked.map((one) => [one, [] as Answered[]]));
  for (let look = 0; look < LOOKS; look++) {
    await readAnew();
    await forEach(asked, async (one) => void answers.get(one)?.push(await ask(url, one.again)));
  }
  return asked.flatMap((one): Question[] => {
    const [first, ...others] = answers.get(one) ?? [];
    if (first === undefined || others.some(({ status }) => status !== first.status)) return [];
    // A test that waits for a condition gets other answers at first.
    const then = one.same.findLast(({ answer }) => answer.status === first.status);
    if (then === undefined) return [];
    const [refusal, made] = [refusalIn(first), madeIn(first)];
    return [
      {
        asked: one.again,
        test: then.test,
        status: first.status,
        refusal: others.every((other) => sameAs(refusal, refusalIn(other))) ? refusal : undefined,
        made: others.every((other) => made === madeIn(other)) ? { by: made } : undefined,
      },
    ];
  });
}

/** The tests whose requests are answered differently while this policy is changed. */
export async function flippedOf(
  url: string,
  questions: readonly Question[],
  policy: string,
): Promise<readonly string[]> {
  const tests = new Set<string>();
  await forEach(questions, async ({ asked, test, status, refusal, made }) => {
    const now = await ask(url, asked);
    const otherwise = refusal?.policy === policy && !sameAs(refusal, refusalIn(now));
    const unlike = made !== undefined && made.by !== madeIn(now);
    if (now.status !== status || otherwise || unlike) tests.add(test);
  });
  // Requests of the set-up come last, since they say least.
  return [...tests].sort((a, b) => Number(a === 'set-up') - Number(b === 'set-up'));
}

async function ask(url: string, asked: Asked): Promise<Answered> {
  const far = await send(url, asked);
  let text = '';
  for await (const chunk of far.setEncoding('utf8')) text += String(chunk);
  return { status: far.statusCode ?? 0, text };
}

function refusalIn({ text }: Answered): Refusal | undefined {
  const found = /AdmissionPolicy '([^']+)' with binding '[^']+' denied request: ([^\n]*?)"/.exec(text);
  const [, policy = '', says = ''] = found ?? [];
  return found === null ? undefined : { policy, says };
}

/** The part of an accepted object that a policy may change. */
const madeIn = ({ text }: Answered): string | undefined =>
  /"platform\.space\/installed-by":"([^"]*)"/.exec(text)?.[1];

const sameAs = (one: Refusal | undefined, other: Refusal | undefined) =>
  one?.policy === other?.policy && one?.says === other?.says;

function dryRun(asked: Asked): Asked {
  // Connections to a pod cannot be dry runs, but there is no kubelet that they could reach.
  if (/\/(exec|attach)\b/.test(asked.path)) return asked;
  // A deletion would use options of its body instead of those of the URL.
  const body = asked.method === 'DELETE' ? '' : asked.body;
  const query = asked.path.includes('dryRun=') ? '' : `${asked.path.includes('?') ? '&' : '?'}dryRun=All`;
  return { ...asked, body, path: `${asked.path}${query}` };
}

async function forEach<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const item of rest) await act(item);
    }),
  );
}
