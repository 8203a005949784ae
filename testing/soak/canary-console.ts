import fc from 'fast-check';
import { acts, CANARY, replies, startTakenOver } from '../../console/testing/taken-over.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Answers of an object-storage broker that was taken over, each with the canary somewhere. */
export async function run({ quick, examples }: SoakOptions): Promise<SoakReport> {
  const wanted = examples ?? (quick ? 5_000 : 100_000);
  const broker = await startTakenOver();
  let leaks = 0;
  try {
    for (const [act, answers] of fc.sample(fc.tuple(acts, replies), wanted))
      if ((await broker.sent(act, answers)).includes(CANARY)) leaks += 1;
  } finally {
    await broker.close();
  }
  return {
    title: 'Answers of a broker that was taken over, in pages of the console',
    rows: [{ answers: wanted, 'pages with the canary': leaks }],
    figures: { answers: wanted, leaks },
    passed: leaks === 0,
  };
}
