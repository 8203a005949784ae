import { readFile } from 'node:fs/promises';
import type { Posted } from './journal.ts';
import { formatAmount } from './money.ts';

/** Where statements are kept: the Assistant's own files in the Space's object store. */
export interface Statements {
  put(month: string, text: string): Promise<void>;
  /** Undefined when none was made. */
  get(month: string): Promise<string | undefined>;
}

const WITHIN_MS = 10_000;

/**
 * Undefined in a Space without an object store. The files are read each time: a token may be exchanged, and a grant, which
 * is there while the Capsule has selected credentials of its own, is renewed every few minutes.
 */
export function createStatements(
  environment: Readonly<Record<string, string | undefined>>,
): Statements | undefined {
  const { OBJECT_STORE_URL: url, OBJECT_STORE_TOKEN_FILE: tokenFile } = environment;
  const { OBJECT_STORE_GRANT_FILE: grantFile } = environment;
  if (url === undefined || tokenFile === undefined) return undefined;
  const call = async (month: string, init: { method: string; body?: string }) => {
    const token = (await readFile(tokenFile, 'utf8')).trim();
    const grant = grantFile === undefined ? '' : await readFile(grantFile, 'utf8').catch(absent);
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'text/plain; charset=utf-8',
      ...(grant === '' ? {} : { 'platform-grant': grant.trim() }),
    };
    const signal = AbortSignal.timeout(WITHIN_MS);
    return fetch(`${url}/v1/objects/data/statements/${month}.txt`, { ...init, headers, signal });
  };
  return {
    async put(month, body) {
      const answer = await call(month, { method: 'PUT', body });
      await answer.arrayBuffer();
      if (!answer.ok) throw new Error(`the object store answered ${answer.status}`);
    },
    async get(month) {
      const answer = await call(month, { method: 'GET' });
      const text = await answer.text();
      if (answer.status === 404) return undefined;
      if (!answer.ok) throw new Error(`the object store answered ${answer.status}`);
      return text;
    },
  };
}

function absent(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return '';
  throw error;
}

/** The postings of a month, one line each, and their sum for each account. */
export function statementOf(month: string, entries: readonly Posted[]): string {
  const sums = new Map<string, { account: string; currency: string; minor: bigint }>();
  const rows = entries.flatMap(({ id, date, description, lines }) =>
    lines.map(({ account, currency, minor }) => {
      const key = `${account} ${currency}`;
      sums.set(key, { account, currency, minor: (sums.get(key)?.minor ?? 0n) + minor });
      return `${date}  #${id}  ${account}  ${formatAmount(minor, currency)} ${currency}  ${description}`;
    }),
  );
  const totals = [...sums.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { account, currency, minor }]) => `${account}  ${formatAmount(minor, currency)} ${currency}`);
  return [`Statement ${month}`, '', ...rows, '', 'Changes', ...totals, ''].join('\n');
}
