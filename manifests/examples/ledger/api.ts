import type { IncomingMessage } from 'node:http';
import { ACCOUNT_RULE, checkEntry, type Entry, isAccount } from './entry.ts';
import { Refusal, type Reply, readJson } from './http.ts';
import type { Journal, Posted } from './journal.ts';
import { formatAmount } from './money.ts';
import { type Bank, isCurrency } from './rates.ts';
import { type Statements, statementOf } from './statements.ts';
import { worthOf } from './worth.ts';

export interface Api {
  readonly journal: Journal;
  /** Undefined where there is no object store. */
  readonly statements: Statements | undefined;
  /** Undefined where the manifest names no bank. */
  readonly bank: Bank | undefined;
  readonly about: object;
  readonly now: () => Date;
}

interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: RegExp;
  readonly query: readonly string[];
  answer(api: Api, call: Call): Promise<Reply>;
}

interface Call {
  readonly request: IncomingMessage;
  readonly query: URLSearchParams;
  readonly parameter: string;
}

const ROUTES: readonly Route[] = [
  { method: 'GET', path: /^\/$/, query: [], answer: async ({ about }) => ok(about) },
  { method: 'GET', path: /^\/healthz$/, query: [], answer: healthz },
  { method: 'POST', path: /^\/entries$/, query: [], answer: postEntry },
  { method: 'GET', path: /^\/entries$/, query: ['limit', 'before', 'account'], answer: listEntries },
  { method: 'GET', path: /^\/entries\/([^/]+)$/, query: [], answer: getEntry },
  { method: 'GET', path: /^\/balances$/, query: ['account'], answer: balances },
  { method: 'GET', path: /^\/worth$/, query: ['in', 'account'], answer: worth },
  { method: 'GET', path: /^\/trial-balance$/, query: [], answer: trialBalance },
  { method: 'POST', path: /^\/statements\/([^/]+)$/, query: [], answer: makeStatement },
  { method: 'GET', path: /^\/statements\/([^/]+)$/, query: [], answer: getStatement },
];

/** Finds the route of a request and answers it; what cannot be answered is thrown as a `Refusal`. */
export async function answer(api: Api, request: IncomingMessage): Promise<Reply> {
  const url = URL.parse(request.url ?? '/', 'http://ledger');
  if (url === null) throw new Refusal(400, 'invalid_request', 'the path is not understood');
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  const here = ROUTES.filter((route) => route.path.test(url.pathname));
  if (here.length === 0) throw new Refusal(404, 'not_found', 'there is no such path; GET / lists them');
  const route = here.find((one) => one.method === method);
  if (route === undefined) {
    const known = here.map((one) => one.method).join(', ');
    throw new Refusal(405, 'method_not_allowed', `this path knows ${known}`);
  }
  for (const name of url.searchParams.keys()) {
    if (!route.query.includes(name)) throw badQuery(name, 'is not known here');
    if (url.searchParams.getAll(name).length > 1) throw badQuery(name, 'must be given once');
  }
  const parameter = route.path.exec(url.pathname)?.[1] ?? '';
  return route.answer(api, { request, query: url.searchParams, parameter });
}

const ok = (body: object): Reply => ({ status: 200, body });
const badQuery = (name: string, message: string) =>
  new Refusal(400, 'invalid_request', 'the query is not understood', {
    problems: [{ at: `?${name.slice(0, 40)}`, message }],
  });

async function healthz({ journal }: Api): Promise<Reply> {
  await journal.find('0');
  return ok({ status: 'ok' });
}

async function postEntry({ journal, now }: Api, { request }: Call): Promise<Reply> {
  const checked = checkEntry(await readJson(request));
  if (!checked.ok) {
    throw new Refusal(400, 'invalid_request', 'the entry is refused', { problems: checked.problems });
  }
  const { posted, created } = await journal.post(checked.value, now().toISOString().slice(0, 10));
  if (!created && !isSame(checked.value, posted)) {
    const message = `this idempotency_key belongs to entry ${posted.id}, which says something else`;
    throw new Refusal(409, 'conflict', message);
  }
  return { status: created ? 201 : 200, body: shown(posted) };
}

const isSame = (entry: Entry, posted: Posted): boolean =>
  entry.description === posted.description &&
  (entry.date ?? posted.date) === posted.date &&
  entry.lines.length === posted.lines.length &&
  entry.lines.every((line, index) => {
    const other = posted.lines[index];
    return line.account === other?.account && line.currency === other.currency && line.minor === other.minor;
  });

async function listEntries({ journal }: Api, { query }: Call): Promise<Reply> {
  const limit = query.get('limit') ?? '50';
  if (!/^[1-9][0-9]{0,2}$/.test(limit) || Number(limit) > 200) throw badQuery('limit', 'must be 1 to 200');
  const before = query.get('before') ?? undefined;
  if (before !== undefined && !isId(before)) throw badQuery('before', 'must be the id of an entry');
  const account = accountOf(query);
  // One more than asked for tells whether there is a next page.
  const found = await journal.page({ before, account, limit: Number(limit) + 1 });
  const entries = found.slice(0, Number(limit));
  const next = found.length > entries.length ? nextPage(limit, entries.at(-1)?.id ?? '', account) : null;
  return ok({ entries: entries.map(shown), next });
}

function nextPage(limit: string, before: string, account: string | undefined): string {
  const query = new URLSearchParams({ limit, before, ...(account !== undefined && { account }) });
  return `/entries?${query}`;
}

async function getEntry({ journal }: Api, { parameter }: Call): Promise<Reply> {
  const entry = isId(parameter) ? await journal.find(parameter) : undefined;
  if (entry === undefined) throw new Refusal(404, 'not_found', 'there is no such entry');
  return ok(shown(entry));
}

async function balances({ journal }: Api, { query }: Call): Promise<Reply> {
  const found = await journal.balances(accountOf(query));
  const lines = found.map(({ account, currency, minor }) => ({
    account,
    currency,
    balance: formatAmount(minor, currency),
  }));
  return ok({ balances: lines });
}

async function worth({ journal, bank }: Api, { query }: Call): Promise<Reply> {
  const currency = query.get('in');
  if (!isCurrency(currency)) throw badQuery('in', 'must be a currency such as EUR');
  const account = accountOf(query) ?? 'assets';
  if (bank === undefined)
    throw new Refusal(404, 'not_found', 'this ledger was given no bank to ask for exchange rates');
  return ok({ account, ...worthOf(await journal.balances(account), await bank.quote(currency)) });
}

async function trialBalance({ journal }: Api): Promise<Reply> {
  const accounts = await journal.totals();
  const currencies = [...new Set(accounts.map(({ currency }) => currency))].sort();
  return ok({
    accounts: accounts.map(({ account, currency, debits, credits }) => ({
      account,
      currency,
      debits: formatAmount(debits, currency),
      credits: formatAmount(credits, currency),
    })),
    sums: currencies.map((currency) => {
      const lines = accounts.filter((line) => line.currency === currency);
      const debits = lines.reduce((sum, line) => sum + line.debits, 0n);
      const credits = lines.reduce((sum, line) => sum + line.credits, 0n);
      return {
        currency,
        debits: formatAmount(debits, currency),
        credits: formatAmount(credits, currency),
        balanced: debits === credits,
      };
    }),
  });
}

async function makeStatement({ journal, statements }: Api, { parameter }: Call): Promise<Reply> {
  const month = monthOf(parameter);
  const kept = storeOf(statements);
  const statement = statementOf(month, await journal.month(month));
  await kept.put(month, statement);
  return ok({ month, statement });
}

async function getStatement({ statements }: Api, { parameter }: Call): Promise<Reply> {
  const month = monthOf(parameter);
  const statement = await storeOf(statements).get(month);
  if (statement === undefined)
    throw new Refusal(404, 'not_found', `no statement of ${month} was made; POST here makes it`);
  return ok({ month, statement });
}

function monthOf(text: string): string {
  if (!/^[1-9][0-9]{3}-(?:0[1-9]|1[0-2])$/.test(text))
    throw new Refusal(400, 'invalid_request', 'a month is written as 2026-11');
  return text;
}

function storeOf(statements: Statements | undefined): Statements {
  if (statements === undefined)
    throw new Refusal(404, 'not_found', 'this Space has no object store, so no statement is kept');
  return statements;
}

function accountOf(query: URLSearchParams): string | undefined {
  const account = query.get('account') ?? undefined;
  // A kind alone is a good question here, though nothing is posted to it.
  if (account !== undefined && !isAccount(account) && !isAccount(`${account}:x`))
    throw badQuery('account', ACCOUNT_RULE);
  return account;
}

/** An id that the database can hold. */
const isId = (text: string): boolean => /^[1-9][0-9]{0,17}$/.test(text);

const shown = ({ id, date, description, idempotencyKey, postedAt, lines }: Posted) => ({
  id,
  date,
  description,
  ...(idempotencyKey !== undefined && { idempotency_key: idempotencyKey }),
  posted_at: postedAt.toISOString(),
  lines: lines.map(({ account, currency, minor }) => ({
    account,
    currency,
    amount: formatAmount(minor, currency),
  })),
});
