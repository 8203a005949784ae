import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import {
  type Canaries,
  type Found,
  HELD,
  leaksIn,
  PLACES,
  type Whose,
} from '../../console/testing/canaries.ts';
import { STORES } from '../../console/testing/quoting-api.ts';
import { acts, CANARY, FIELDS, replies, WHOLE } from '../../console/testing/taken-over.ts';
import { startWatchedProgram, type WatchedProgram } from '../../console/testing/watched-program.ts';
import { lookInWindow } from '../../console/testing/watched-window.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** The number of consoles at once; with one, a processor would be idle while the other side works. */
const CONSOLES = 2;
/** The heap is searched after each part of the answers. */
const PARTS = 4;
/** One answer about stored inputs, and one about people whom the issuer names, for this many answers of the broker. */
const INPUTS_OF = 10;
const ISSUER_OF = 200;
const IN_WINDOW = 8;

const word = () => randomBytes(24).toString('hex');
const token = (audience: string) => `spc_${audience}_${randomBytes(32).toString('base64url')}`;

const someCanaries = (): Omit<Canaries, 'tlsKey'> => ({
  ...{ broker: CANARY, person: word(), principal: token('osp'), token: word(), input: word() },
  ...{ account: word(), sessionKeys: randomBytes(32).toString('base64url') },
  ...{ observer: token('obs'), client: word(), control: `control${word()}` },
});

interface Done {
  readonly answers: number;
  readonly inputs: number;
  readonly people: number;
  readonly found: WatchedProgram['lookout']['found'];
}

/** Runs one console with its answers in parts, and then a real browser that uses it. */
async function watchOne(wanted: number, withWindow: boolean): Promise<Done> {
  const program = await startWatchedProgram(someCanaries());
  const { person } = program.canaries;
  const fields = { ...FIELDS, 'secret-access-key-id': person, 'secret-secret-access-key': person };
  const done = { answers: 0, inputs: 0, people: 0 };
  try {
    for (let part = 0; part < PARTS; part += 1) {
      for (const [act, answers] of fc.sample(fc.tuple(acts, replies), Math.ceil(wanted / PARTS))) {
        program.tell(answers);
        await program.act(act, fields);
        done.answers += 1;
        if (done.answers % INPUTS_OF === 0) {
          program.keeps(STORES[done.inputs % STORES.length] ?? 'made');
          await program.enter();
          done.inputs += 1;
        }
        if (done.answers % ISSUER_OF === 0) {
          await program.byIssuer(done.people % 2 === 1);
          done.people += 1;
        }
      }
      program.tell(WHOLE);
      if (withWindow && part === PARTS - 1)
        await lookInWindow(program, [WHOLE, ...fc.sample(replies, IN_WINDOW)]);
      await program.search();
    }
    return { ...done, found: program.lookout.found };
  } finally {
    await program.close();
  }
}

/** Adds the results of all consoles. */
function together(all: readonly Done[]): Readonly<Record<Whose, Found>> {
  const [first, ...others] = all;
  if (first === undefined) throw new Error('no console was watched');
  for (const whose of Object.keys(first.found) as Whose[])
    for (const place of PLACES)
      for (const { found } of others) first.found[whose][place] += found[whose][place];
  return first.found;
}

const sumOf = (all: readonly Done[], key: 'answers' | 'inputs' | 'people') =>
  all.reduce((sum, one) => sum + one[key], 0);

/**
 * Sends answers of a compromised object-storage broker, each with a canary value somewhere, to consoles in processes of their
 * own. Every secret that a console is given or holds is also a canary, and the API server, the gateway and the issuer quote
 * what they are sent. No canary may appear where it does not belong.
 */
export async function run({ quick, examples }: SoakOptions): Promise<SoakReport> {
  const wanted = examples ?? (quick ? 2_000 : 100_000);
  const each = Array.from({ length: CONSOLES }, (_, index) => watchOne(wanted / CONSOLES, index === 0));
  const all = await Promise.all(each);
  const found = together(all);
  const rows = Object.entries(found).map(([canary, places]) => ({ canary, ...places }));
  const leaks = leaksIn(found);
  // Values that the console does hold, and those in the browser, must be found: otherwise the search does not work.
  const unseen = [
    ...HELD.filter((whose) => whose !== 'tlsKey' && found[whose].heap === 0),
    ...(['history', 'storage', 'profile'] as const).filter((place) => found.control[place] === 0),
  ];
  return {
    title: 'Canaries that were found in and around consoles whose object-storage broker is compromised',
    rows,
    figures: {
      ...{ answers: sumOf(all, 'answers'), stored_inputs: sumOf(all, 'inputs') },
      ...{ by_issuer: sumOf(all, 'people'), leaks },
    },
    notes: [
      `The console itself holds ${HELD.join(', ')}, so its heap contains them. The test planted the canary "control" to show that the search works.`,
      ...unseen.map((one) => `The search missed ${one}, which is there, so the other results prove nothing.`),
    ],
    passed: unseen.length === 0 && leaks === 0,
  };
}
