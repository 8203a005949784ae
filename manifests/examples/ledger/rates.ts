import { Refusal } from './http.ts';

/** An exact decimal: `digits` / 10^`decimals`. */
export interface Rate {
  readonly digits: bigint;
  readonly decimals: number;
}

/** What one unit of `base` is in other currencies. */
export interface Quote {
  readonly base: string;
  readonly date: string;
  readonly rates: ReadonlyMap<string, Rate>;
}

/** The household's bank. Its key is a stored input: the gateway adds it on the way, and this process never has it. */
export interface Bank {
  /** @throws Refusal when the bank cannot be asked, or says something else than rates */
  quote(base: string): Promise<Quote>;
}

const ANSWER_WITHIN_MS = 8_000;
const LONGEST_ANSWER = 64 * 1024;

/** Undefined where the manifest has no stored input `bank`. */
export function createBank(environment: Readonly<Record<string, string | undefined>>): Bank | undefined {
  const { INPUT_BANK_URL: url, EGRESS_TOKEN: token } = environment;
  if (url === undefined || token === undefined) return undefined;
  return {
    async quote(base) {
      const text = await ask(`${url}/v1/rates?base=${base}`, token);
      const quote = quoteIn(text);
      if (quote?.base !== base) throw unavailable('the bank said something else than rates');
      return quote;
    },
  };
}

async function ask(url: string, token: string): Promise<string> {
  try {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${token}` },
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    // The gateway says with a stable code why it did not ask the bank.
    const code = response.headers.get('platform-egress-error');
    if (code !== null) throw unavailable(`the bank was not asked: ${code}`);
    if (response.status !== 200) throw unavailable(`the bank answered ${response.status}`);
    return await textOf(response);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw unavailable('the bank does not answer');
  }
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > LONGEST_ANSWER) throw unavailable('the bank answered too much');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

const unavailable = (message: string) => new Refusal(502, 'rates_unavailable', message);

/** `{"base":"EUR","date":"2026-11-20","rates":{"USD":"1.1012"}}`; undefined for anything else. */
export function quoteIn(text: string): Quote | undefined {
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { base, date, rates } = (said ?? {}) as Readonly<Record<string, unknown>>;
  if (!isCurrency(base) || typeof date !== 'string' || !/^\d{4}-\d{2}-\d{2}$/.test(date)) return undefined;
  if (typeof rates !== 'object' || rates === null) return undefined;
  const known = Object.entries(rates).map(([currency, rate]) => [currency, rateIn(rate)] as const);
  const good = known.flatMap(([currency, rate]) =>
    isCurrency(currency) && rate !== undefined ? [[currency, rate] as const] : [],
  );
  return good.length === known.length ? { base, date, rates: new Map(good) } : undefined;
}

export const isCurrency = (text: unknown): text is string =>
  typeof text === 'string' && /^[A-Z]{3}$/.test(text);

/** Strings only: a JSON number has lost its digits before anybody can count them. */
function rateIn(rate: unknown): Rate | undefined {
  const [, whole, fraction = ''] =
    /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(typeof rate === 'string' ? rate : '') ?? [];
  if (whole === undefined) return undefined;
  const digits = BigInt(whole + fraction);
  return digits === 0n ? undefined : { digits, decimals: fraction.length };
}
