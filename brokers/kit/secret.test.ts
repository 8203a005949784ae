import { format, inspect } from 'node:util';
import { Secret } from '@space/contracts/secret';
import { expect, it } from 'vitest';
import { createLogger, errorFields } from './log.ts';

const canary = 'canary-4711';
const secret = new Secret(canary);

it.each<[string, () => string]>([
  ['a template', () => `${secret}`],
  ['concatenation', () => secret + ''],
  ['JSON', () => JSON.stringify({ deep: [secret] })],
  ['inspect', () => inspect({ deep: [secret] }, { showHidden: true, depth: null })],
  ['format', () => format('%s %o %j', secret, secret, secret)],
  ['its keys', () => Object.entries(secret).join()],
  [
    'the log',
    () => {
      const lines: string[] = [];
      const log = createLogger({
        service: 'x',
        level: 'trace',
        destination: { write: (line) => void lines.push(line) },
      });
      log.info({ secret, err: new Error(canary, { cause: new Error(canary) }) }, 'said');
      return lines.join('');
    },
  ],
])('a secret does not appear in %s', (_, render) => {
  expect(render()).not.toContain(canary);
  expect(secret.reveal()).toBe(canary);
});

it('a foreign error is logged with only its class, code and place', () => {
  const error = Object.assign(new TypeError(canary), { code: 'E1', detail: canary });
  expect(errorFields(error)).toEqual({ type: 'TypeError', code: 'E1', at: expect.any(String) });
  expect(errorFields(canary)).toEqual({ type: 'string' });
});
