import { readFileSync } from 'node:fs';

/** The first thing that a caller sees: what this is, where it runs, and requests to copy. */
export function about(environment: Readonly<Record<string, string | undefined>>): object {
  return {
    name: 'Ledger',
    what: 'A double-entry ledger with a database of its own: every entry sums to zero, and none is ever changed.',
    assistant: environment['ASSISTANT_ID'],
    capsule: environment['CAPSULE_ID'],
    kernel: kernel(),
    node: process.version,
    requests: {
      'POST /entries': {
        description: 'Groceries, paid by card',
        idempotency_key: 'receipt-4711',
        lines: [
          { account: 'expenses:groceries', currency: 'EUR', amount: '42.50' },
          { account: 'assets:bank', currency: 'EUR', amount: '-42.50' },
        ],
      },
      'GET /entries?limit=50&before=ID&account=assets:bank': 'the journal, newest first',
      'GET /entries/ID': 'one entry',
      'GET /balances?account=assets': 'balance of an account and of all below it, by currency',
      'GET /worth?in=EUR&account=assets':
        'what that is in one currency, at the rates of the household’s bank',
      'GET /trial-balance': 'debits and credits of every account; their sums agree',
      'POST /statements/2026-11': 'makes the statement of a month and keeps it as a file',
      'GET /statements/2026-11': 'the statement as it was kept',
      'GET /healthz': 'whether this answers, and its database does',
    },
  };
}

/** The kernel as this process sees it: in a sandbox it is the sandbox's own. */
function kernel(): string {
  try {
    return readFileSync('/proc/version', 'utf8').trim();
  } catch {
    return 'unknown: there is no /proc/version';
  }
}
