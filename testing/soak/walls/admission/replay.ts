/** Asks again what tests have asked, and stores nothing: whose answer is another shows that a wall is. */
import { type Answered, type Asked, type Recorded, send } from './record.ts';

/** Verdicts of the API server; what reads is judged by no admission policy. */
const WRITES: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);
const AT_ONCE = 8;
/** Which of several policies that refuse is told changes when the API server reads them anew. */
const LOOKS = 6;

/** A request whose answer is the same each time, and the test that asked. */
export interface Question {
  readonly asked: Asked;
  readonly test: string;
  readonly status: number;
  /** What refuses, and how it says so, where that is always the same. */
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
    // A test that waits for something gets other answers at first.
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

/** The tests that are answered otherwise now that this policy is another: not at all, or by somebody else. */
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
  // What a test waits for before it begins says the least.
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

/** What a policy may change of an object that is taken. */
const madeIn = ({ text }: Answered): string | undefined =>
  /"platform\.space\/installed-by":"([^"]*)"/.exec(text)?.[1];

const sameAs = (one: Refusal | undefined, other: Refusal | undefined) =>
  one?.policy === other?.policy && one?.says === other?.says;

function dryRun(asked: Asked): Asked {
  // What connects to a pod cannot be tried; no kubelet is there to be reached.
  if (/\/(exec|attach)\b/.test(asked.path)) return asked;
  // For a deletion, the body would count and not the address.
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
