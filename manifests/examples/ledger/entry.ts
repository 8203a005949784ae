import { formatAmount, parseAmount } from './money.ts';

/** One line of an entry: positive is a debit, negative a credit. */
export interface Line {
  readonly account: string;
  readonly currency: string;
  readonly minor: bigint;
}

/** What happened, as lines that sum to zero in every currency. */
export interface Entry {
  /** Left out: the day on which it is posted. */
  readonly date: string | undefined;
  readonly description: string;
  readonly idempotencyKey: string | undefined;
  readonly lines: readonly Line[];
}

/** Where in the request something is wrong, and what. */
interface Problem {
  readonly at: string;
  readonly message: string;
}

export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly Problem[] };

const LINES = { least: 2, most: 100 };
const KINDS = ['assets', 'liabilities', 'equity', 'income', 'expenses'];
const ACCOUNT = new RegExp(`^(${KINDS.join('|')})(:[a-z0-9]+(-[a-z0-9]+)*){1,6}$`);
const KEY = /^[A-Za-z0-9_-]{1,64}$/;
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

export const ACCOUNT_RULE = `must be a kind (${KINDS.join(', ')}) and names after colons, such as "assets:bank" or "expenses:food:lunch"`;

export const isAccount = (name: string): boolean => name.length <= 120 && ACCOUNT.test(name);

/** Checks a request to post an entry; finds everything that is wrong, not only the first. */
export function checkEntry(body: unknown): Checked<Entry> {
  const problems: Problem[] = [];
  const wrong = (at: string, message: string) => {
    problems.push({ at, message });
  };
  if (!isObject(body)) return { ok: false, problems: [{ at: '', message: 'must be a JSON object' }] };
  closed(body, ['date', 'description', 'idempotency_key', 'lines'], '', wrong);

  const { date, description, idempotency_key: key, lines } = body;
  if (date !== undefined && !(typeof date === 'string' && isDate(date)))
    wrong('/date', 'must be a day such as "2026-11-21"');
  if (typeof description !== 'string' || !isText(description))
    wrong('/description', 'must be a line of 1 to 200 characters');
  if (key !== undefined && !(typeof key === 'string' && KEY.test(key)))
    wrong('/idempotency_key', 'must be 1 to 64 letters, digits, "-" or "_"');

  const checked = checkLines(lines, wrong);
  if (problems.length === 0) balance(checked, wrong);
  if (problems.length > 0) return { ok: false, problems };
  return {
    ok: true,
    value: {
      date: date as string | undefined,
      description: description as string,
      idempotencyKey: key as string | undefined,
      lines: checked,
    },
  };
}

type Wrong = (at: string, message: string) => void;

function checkLines(lines: unknown, wrong: Wrong): readonly Line[] {
  if (!Array.isArray(lines) || lines.length < LINES.least || lines.length > LINES.most) {
    wrong('/lines', `must be an array of ${LINES.least} to ${LINES.most} lines`);
    return [];
  }
  return lines.flatMap((line: unknown, index) => checkLine(line, `/lines/${index}`, wrong) ?? []);
}

function checkLine(line: unknown, at: string, wrong: Wrong): Line | undefined {
  if (!isObject(line)) {
    wrong(at, 'must be an object with account, currency and amount');
    return undefined;
  }
  closed(line, ['account', 'currency', 'amount'], at, wrong);
  const { account, currency, amount } = line;
  if (typeof account !== 'string' || !isAccount(account)) wrong(`${at}/account`, ACCOUNT_RULE);
  if (typeof currency !== 'string' || !/^[A-Z]{3}$/.test(currency)) {
    wrong(`${at}/currency`, 'must be three capital letters, such as "EUR"');
    return undefined;
  }
  if (typeof amount !== 'string') {
    wrong(`${at}/amount`, 'must be a decimal string such as "12.50" (a number would lose cents)');
    return undefined;
  }
  const minor = parseAmount(amount, currency);
  if (typeof minor !== 'bigint') wrong(`${at}/amount`, minor.problem);
  else if (minor === 0n) wrong(`${at}/amount`, 'must not be zero');
  else if (typeof account === 'string') return { account, currency, minor };
  return undefined;
}

function balance(lines: readonly Line[], wrong: Wrong): void {
  const sums = new Map<string, bigint>();
  for (const { currency, minor } of lines) sums.set(currency, (sums.get(currency) ?? 0n) + minor);
  for (const [currency, sum] of sums) {
    if (sum !== 0n)
      wrong(
        '/lines',
        `must sum to zero in every currency; ${currency} is off by ${formatAmount(sum, currency)}`,
      );
  }
}

function closed(object: object, known: readonly string[], at: string, wrong: Wrong): void {
  for (const key of Object.keys(object)) {
    if (known.includes(key)) continue;
    const shown = key.slice(0, 40).replace(/~/g, '~0').replace(/\//g, '~1');
    wrong(`${at}/${shown}`, `is not known here; known are ${known.join(', ')}`);
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isText = (text: string) =>
  text.trim() === text && text !== '' && [...text].length <= 200 && !CONTROL.test(text);

/** A day of the calendar: 2026-02-30 is none. */
function isDate(text: string): boolean {
  if (!/^(?:19|2[0-9])[0-9]{2}-[0-9]{2}-[0-9]{2}$/.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}
