import { Secret } from '@space/contracts/secret';
import { ConfigError } from './config.ts';

const KEY = /^[A-Za-z0-9_-]{43}$/;

/**
 * The keys of a mounted file, at least one, one per line, each 32 bytes as 43 base64url characters. @throws ConfigError
 */
export function parseKeys(text: string, setting: string): readonly Secret<Buffer>[] {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (lines.length === 0) throw new ConfigError(`${setting}: no key in it`);
  return lines.map((line) => {
    if (!KEY.test(line)) throw new ConfigError(`${setting}: a key is 43 base64url characters`);
    return new Secret(Buffer.from(line, 'base64url'));
  });
}

/** The key of a file that holds exactly one. */
export function parseKey(text: string, setting: string): Secret<Buffer> {
  const [key, ...more] = parseKeys(text, setting);
  if (key === undefined || more.length > 0) throw new ConfigError(`${setting}: exactly one key is needed`);
  return key;
}
