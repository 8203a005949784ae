import * as sdk from '@aws-sdk/client-s3';
import { bytes, type Case, type Json, type Params, type Step } from './cases/case.ts';

/** Plays a case with the AWS SDK for JavaScript; throws at the first answer that is not as the table says. */
export async function play(
  { steps, home }: Case & { readonly home: string },
  clients: Readonly<Record<Step['as'], sdk.S3Client>>,
): Promise<void> {
  const kept = new Map<string, unknown>([['home', home]]);
  for (const step of steps) {
    const answer = await answerOf(clients[step.as], step, kept);
    for (const [name, value] of Object.entries(step.gives))
      compare(answer[name], value, `${step.call} ${name}`, kept);
    for (const [name, path] of Object.entries(step.keep)) kept.set(name, at(answer, path));
  }
}

type Kept = ReadonlyMap<string, unknown>;
type Answer = Record<string, unknown>;
type Command = Parameters<sdk.S3Client['send']>[0];

const COMMANDS = { ...sdk } as unknown as Readonly<Record<string, new (params: Answer) => Command>>;

async function answerOf(client: sdk.S3Client, step: Step, kept: Kept): Promise<Answer> {
  const params = filled(step.with, kept) as Answer;
  if (typeof params['CopySource'] === 'string') params['CopySource'] = escaped(params['CopySource']);
  const Call = COMMANDS[`${step.call}Command`];
  if (Call === undefined) throw new Error(`the SDK has no ${step.call}`);
  try {
    const answer = (await client.send(new Call(params))) as unknown as Answer;
    const body = answer['Body'] as { transformToByteArray(): Promise<Uint8Array> } | undefined;
    if (body !== undefined) answer['Body'] = Buffer.from(await body.transformToByteArray());
    if (step.refused !== undefined) throw new Error(`${step.call} was not refused: ${step.refused}`);
    return answer;
  } catch (error) {
    if (!(error instanceof sdk.S3ServiceException)) throw error;
    const status = String(error.$metadata.httpStatusCode);
    const found = step.refused?.includes(' ') ? `${status} ${error.name}` : status;
    if (found !== step.refused)
      throw new Error(`${step.call}: ${status} ${error.name}, not ${step.refused ?? 'an answer'}`, {
        cause: error,
      });
    return {};
  }
}

/** Escapes the source as boto3 does, which this SDK leaves to its caller. */
function escaped(source: string): string {
  const [path = '', version = ''] = source.split(/(?=\?versionId=)/);
  return `${path.split('/').map(encodeURIComponent).join('/')}${version}`;
}

function at(answer: Answer, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => (value as Answer | undefined)?.[name], answer);
}

function filled(value: Json, kept: Kept): unknown {
  if (typeof value === 'string') {
    const whole = /^\{(\w+)\}$/.exec(value)?.[1];
    if (whole !== undefined && kept.has(whole)) return kept.get(whole);
    return value.replace(/\{(\w+)\}/g, (text, name) => (kept.has(name) ? String(kept.get(name)) : text));
  }
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((one) => filled(one, kept));
  const params = value as Params;
  if ('$bytes' in params) return bytesOf(params);
  if ('$date' in params) return new Date(String(params['$date']));
  return Object.fromEntries(Object.entries(params).map(([name, one]) => [name, filled(one, kept)]));
}

function bytesOf(value: Params): Buffer {
  return bytes(Number(value['$bytes']), Number(value['$from'] ?? 0));
}

function compare(found: unknown, expected: Json, where: string, kept: Kept): void {
  const unlike = () => {
    const [a, b] = [found, filled(expected, kept)].map((value) =>
      (JSON.stringify(value) ?? 'nothing').slice(0, 200),
    );
    return new Error(`${where}: ${a} is not ${b}`);
  };
  if (expected === null) {
    if (found !== undefined) throw unlike();
  } else if (Buffer.isBuffer(found)) {
    const whole = typeof expected === 'string' ? Buffer.from(expected) : bytesOf(expected as Params);
    if (!found.equals(whole)) throw unlike();
  } else if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) throw unlike();
    for (const [i, one] of expected.entries()) compare(found[i], one, `${where}.${i}`, kept);
  } else if (typeof expected === 'object') {
    const like = expected as Params;
    if ('$match' in like) {
      if (!new RegExp(String(like['$match'])).test(String(found))) throw unlike();
    } else if ('$decoded' in like) {
      if (decodeURIComponent(String(found)) !== filled(like['$decoded'] ?? null, kept)) throw unlike();
    } else if ('$date' in like) {
      if (!(found instanceof Date)) throw unlike();
    } else {
      if (found === null || typeof found !== 'object') throw unlike();
      for (const [name, one] of Object.entries(like))
        compare((found as Answer)[name], one, `${where}.${name}`, kept);
    }
  } else if (found !== filled(expected, kept)) throw unlike();
}
