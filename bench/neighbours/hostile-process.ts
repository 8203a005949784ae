/** One hostile tenant. It does the acts in the first line of its input until the input ends, and prints their results. */
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { createInterface } from 'node:readline';
import type { Act } from './acts.ts';
import { doHttp, doSilent } from './hostile-http.ts';
import { doSql } from './hostile-sql.ts';

// The process gets low priority, since in a cluster it has a processor share of its own and is not what is measured.
setPriority(19);
const input = createInterface({ input: process.stdin });
const [line] = await once(input, 'line');
const acts = JSON.parse(line) as readonly Act[];
const counts: Record<string, number> = {};
const count = (what: string) => {
  counts[what] = (counts[what] ?? 0) + 1;
};
const ending = new AbortController();
const doing = { signal: ending.signal, count };

await Promise.all(
  acts.map((act) => {
    if (act.kind === 'silent') return doSilent(act, doing);
    if (act.kind === 'sql' || act.kind === 'unread' || act.kind === 'logins') return doSql(act, doing);
    return doHttp(act, doing);
  }),
);
console.log('begun');
input.on('close', () => {
  ending.abort();
  console.log(JSON.stringify(counts));
  process.exit(0);
});
