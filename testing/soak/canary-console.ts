import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { acts, CANARY, FIELDS, replies } from '../../console/testing/taken-over.ts';
import {
  type Canaries,
  type Found,
  PLACES,
  startWatchedProgram,
} from '../../console/testing/watched-program.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

const word = () => randomBytes(24).toString('hex');

/**
 * Answers of an object-storage broker that was taken over, each with the canary somewhere, to a console that is a program of
 * its own; with the keys that a person enters, the Capsule's principal and the person's token as canaries of their own.
 */
export async function run({ quick, examples }: SoakOptions): Promise<SoakReport> {
  const wanted = examples ?? (quick ? 2_000 : 100_000);
  const canaries: Canaries = {
    broker: CANARY,
    person: word(),
    principal: `spc_osp_${randomBytes(32).toString('base64url')}`,
    token: word(),
    account: word(),
  };
  const program = await startWatchedProgram(canaries);
  try {
    const fields = {
      ...FIELDS,
      'secret-access-key-id': canaries.person,
      'secret-secret-access-key': canaries.person,
    };
    for (const [act, answers] of fc.sample(fc.tuple(acts, replies), wanted))
      await program.act(act, answers, fields);
    await program.search();
  } finally {
    await program.close();
  }
  const rows = Object.entries(program.found).map(([canary, found]) => ({
    canary,
    answers: wanted,
    ...found,
  }));
  // What it does hold is found: otherwise nothing was searched.
  const isSearched = program.found.account.heap > 0;
  const sum = (found: Found) => PLACES.reduce((all, place) => all + found[place], 0);
  const leaks = rows.reduce((all, row) => all + sum(row), 0) - program.found.account.heap;
  return {
    title: 'Where canaries were found in and around a console whose broker was taken over',
    rows,
    figures: { answers: wanted, leaks },
    passed: isSearched && leaks === 0,
  };
}
