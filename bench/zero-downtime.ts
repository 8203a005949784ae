/**
 * Measures what tenants notice during maintenance of a Space. An Assistant in gVisor uses SQL, objects, stored inputs and tunnels
 * in an open loop, while the Space is upgraded, rolled back, gets new keys and another CA, and a node is drained. No request may
 * fail. It needs `npm run up -- --nodes 3`, since the node to drain must run neither PostgreSQL nor the S3 server.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Report, Row } from '../testing/report.ts';
import { actsOn } from './zero-downtime/acts.ts';
import { openSpaceUnderLoad } from './zero-downtime/space.ts';

/** Requests a second. The quick form is lower, since every pod of three nodes is replaced on the same two cores. */
const RATES = {
  whole: { sql: 50, put: 15, get: 35, input: 40, tunnel: 8 },
  quick: { sql: 20, put: 6, get: 14, input: 16, tunnel: 3 },
};
const WANTED = { whole: 1_000_000, quick: 20_000 };
/** The pause between two acts, in which nodes and pods of the last one come to rest, as an administrator would wait for. */
const BETWEEN_MS = 60_000;

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const form = quick ? 'quick' : 'whole';
  const wanted = WANTED[form];
  const space = await openSpaceUnderLoad(RATES[form]);
  try {
    const acts = actsOn(space);
    const done: Record<string, number> = {};
    const during: { readonly name: string; readonly from: string; readonly to: string }[] = [];
    const asked = async () =>
      Number((await space.rows('SELECT coalesce(sum(ok + failed), 0) FROM tally'))[0]);
    const clock = async () => (await space.rows('SELECT now()'))[0] ?? '';
    for (let turn = 0; turn < acts.length || (await asked()) < wanted; turn += 1) {
      const act = acts[turn % acts.length];
      if (act === undefined) break;
      const from = await clock();
      await act.act();
      await pause(BETWEEN_MS);
      during.push({ name: act.name, from, to: await clock() });
      done[act.name] = (done[act.name] ?? 0) + 1;
      console.error(`${act.name} is done; ${await asked()} requests so far`);
    }
    return report(await tell(space.rows, during), done);
  } finally {
    await space.close();
  }
}

interface Told {
  readonly kinds: readonly Row[];
  readonly acts: readonly string[];
  readonly errors: readonly string[];
  readonly total: number;
  readonly failed: number;
}

async function tell(
  rows: (statement: string) => Promise<readonly string[]>,
  during: readonly { readonly name: string; readonly from: string; readonly to: string }[],
): Promise<Told> {
  const kinds = (
    await rows(
      'SELECT kind, sum(ok + failed), sum(failed), round(max(longest_ms)::numeric), count(DISTINCT pod) FROM tally GROUP BY 1 ORDER BY 1',
    )
  ).map((line) => {
    const [kind = '', requests, failed, longest, pods] = line.split('|');
    return {
      ...{ kind, requests: Number(requests), failed: Number(failed) },
      ...{ 'longest ms': Number(longest), pods: Number(pods) },
    };
  });
  const errors = await rows(
    `SELECT kind, e.key, sum(e.value::int) FROM tally, jsonb_each_text(errors) e GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 20`,
  );
  const acts: string[] = [];
  for (const { name, from, to } of during) {
    const [failed] = await rows(
      `SELECT coalesce(sum(failed), 0) FROM tally WHERE at BETWEEN '${from}' AND '${to}' AND failed > 0`,
    );
    if (failed !== '0') acts.push(`${name}: ${failed} requests failed`);
  }
  const sum = (of: 'requests' | 'failed') => kinds.reduce((all, kind) => all + kind[of], 0);
  return { kinds, acts, errors, total: sum('requests'), failed: sum('failed') };
}

function report(
  { kinds, acts, errors, total, failed }: Told,
  done: Readonly<Record<string, number>>,
): Report {
  return {
    title: 'Requests of one Assistant, in an open loop, during maintenance of its Space',
    rows: kinds,
    figures: { requests: total, failed, ...done },
    notes: [
      Object.entries(done)
        .map(([name, times]) => `${name} ${times}×`)
        .join(', '),
      ...acts,
      ...errors,
    ],
    missed: failed === 0 ? [] : [`${failed} of ${total} requests failed`],
  };
}
