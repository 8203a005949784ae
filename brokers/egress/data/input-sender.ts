import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Turns } from '@space/broker-kit';
import type { SigningProfile } from '@space/manifests';
import { withHostTags } from '../core/entity-tags.ts';
import { Problem } from '../core/problem.ts';
import { reporting, type Scrubber, scrubberOf, scrubbersInTurn } from '../core/scrub.ts';
import { type Signable, type Signature, sign } from '../core/signing.ts';
import { headerValue, targetWith } from '../core/slot.ts';
import type { Custody } from '../custody.ts';
import type { LiveInput } from '../policies/tenant.ts';
import type { Admitted } from './admission.ts';
import type { ArrivingRequest } from './arriving-request.ts';
import { bodyOf, readBody, wholeLength } from './body.ts';
import type { Budget } from './budget.ts';
import type { Ending } from './ending.ts';
import { ANSWER_STALL_BYTES, type DataLimits } from './limits.ts';
import { oncePerTick } from './once-per-tick.ts';
import { passingFor } from './passing.ts';
import type { Line } from './record.ts';
import type { Reflections } from './reflections.ts';
import { relay } from './relay.ts';
import type { Upstreams } from './upstreams.ts';
import type { Usage } from './usage.ts';

/** A request for a stored input. */
export interface InputExchange {
  readonly request: ArrivingRequest;
  readonly response: ServerResponse;
  readonly line: Line;
  readonly ending: Ending;
}

export interface SenderOptions {
  readonly custody: Custody;
  readonly upstreams: Upstreams;
  readonly limits: DataLimits;
  readonly usage: Usage;
  readonly stalls: Budget;
  readonly reflections: Reflections;
  readonly now: () => number;
  readonly scrubbers: ScrubberSource;
  /** Turns with the processor for bodies and for scrubbing answers; the keys are Capsules. */
  readonly turns: Turns;
}

/** Creates the scrubber of an input's value, or returns an existing one. */
export interface ScrubberSource {
  of(input: LiveInput, reveal: () => string): Scrubber | Promise<Scrubber>;
}

/** Sends admitted requests with the value to their host, and scrubs the value from the answers. */
export function createInputSender(options: SenderOptions) {
  const { custody, upstreams, limits, usage } = options;
  const opened = oncePerTick(({ owner, envelope }: LiveInput) => {
    const value = custody.open(owner, envelope)?.reveal();
    if (value === undefined) throw new Problem('input_unavailable');
    return value;
  });

  return async (admitted: Admitted, exchange: InputExchange): Promise<void> => {
    const { request, response, line, ending } = exchange;
    const idle = { idleMs: limits.bodyIdleMs, onIdle: (problem: Problem) => ending.end(problem) };
    const sendContinue = () => void (request.headers.expect !== undefined && response.writeContinue());
    const { input } = admitted;
    // Prepared before the body is read, since until it is sent nobody listens for its errors.
    const scrubber = await options.scrubbers.of(input, () => opened(input));
    if (input.signing === undefined) {
      sendContinue();
      const passing = passingFor(options, admitted.tenant.capsule);
      const body = bodyOf(request, { limit: limits.bodyBytes, ...idle, passing }, line);
      return send(admitted, body, scrubber, exchange);
    }
    const length = wholeLength(request, limits.signedBodyBytes);
    const giveBack = usage.hold(admitted.tenant, length);
    try {
      sendContinue();
      const body = await readBody(request, length, idle, ending.signal);
      await send(admitted, body, scrubber, exchange);
    } finally {
      giveBack();
    }
  };

  async function send(
    admitted: Admitted,
    body: Buffer | Readable | null,
    prepared: Scrubber,
    { response, line, ending }: InputExchange,
  ): Promise<void> {
    const { tenant, input, method, target } = admitted;
    const headers = withHostTags(admitted.headers, method, (text) => custody.openTag(input.owner, text));
    const ofValue = reporting(prepared, () => {
      line.reflected = true;
      options.reflections.count(tenant, input);
    });
    const { filling, secrets } = fillingOf(admitted, body, { value: opened(input), now: options.now() });
    const scrubber = secrets === undefined ? ofValue : scrubbersInTurn(ofValue, scrubberOf(secrets));
    const { slot } = input;
    if (slot.kind === 'header') headers.push(slot.name, headerValue(slot, filling));
    await relay(
      upstreams.of(tenant, input.host),
      { method, path: targetWith(target, slot, filling), headers, body },
      {
        response,
        scrubber,
        sealTag: (tag) => custody.sealTag(input.owner, tag),
        line,
        ending,
        idleMs: limits.bodyIdleMs,
        answerMs: limits.answerMs,
        inTurn: (act) => void options.turns.run(tenant.capsule, act),
        stalled: stalledFor(options.stalls, tenant.capsule, ending),
      },
    );
  }
}

/** What is put into the slot: the value, or a signature made with it, which answers must not contain either. */
function fillingOf(
  { input, method, target }: Admitted,
  body: Buffer | Readable | null,
  { value, now }: { readonly value: string; readonly now: number },
): { readonly filling: string; readonly secrets?: Signature['secrets'] } {
  if (input.signing === undefined) return { filling: value };
  const { text, secrets } = signed(input.signing, value, {
    method,
    path: target.path,
    query: target.query,
    body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    at: Math.floor(now / 1000),
  });
  return { filling: text, secrets };
}

const stalledFor = (stalls: Budget, capsule: string, ending: Ending) => () =>
  stalls.hold(capsule, ANSWER_STALL_BYTES, () => ending.end(new Problem('unavailable')));

function signed(profile: SigningProfile, value: string, request: Signable): Signature {
  const key = Buffer.from(value, 'latin1');
  try {
    return sign(profile, key, request);
  } finally {
    key.fill(0);
  }
}
