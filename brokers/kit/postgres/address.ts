import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { Secret } from '@space/contracts/secret';
import { ConfigError } from '../config.ts';

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: Secret<string>;
  /** False without TLS; otherwise the server is verified, by default with the system's authorities. */
  readonly ssl: false | { readonly rejectUnauthorized: true; readonly ca?: string };
}

/**
 * Parses the URL of a service's server; errors name only the setting. TLS is either `sslmode=verify-full` or off
 * (`disable`): a mode that encrypts without verifying the server is refused.
 */
export function parseServerUrl(
  text: string,
  setting: string,
  readCa: (path: string) => string,
): ServerAddress {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    throw new ConfigError(`${setting}: not a URL`);
  }
  const decoded = (part: string) => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw new ConfigError(`${setting}: a percent sign in it that stands for itself is written %25`);
    }
  };
  const database = decoded(url.pathname.slice(1));
  if (!/^postgres(?:ql)?:$/.test(url.protocol) || url.username === '' || database === '') {
    throw new ConfigError(`${setting}: needs postgresql://user:password@host:port/database`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return {
    host: isIP(host) === 6 ? host : decoded(host),
    port: url.port === '' ? 5432 : Number(url.port),
    database,
    user: decoded(url.username),
    password: new Secret(decoded(url.password)),
    ssl: tls(url.searchParams, setting, readCa),
  };
}

/**
 * Returns a parser for a mounted file: it contains the whole URL or, if `url` has the rest, only the password, so that
 * a password can be exchanged without writing a URL.
 */
export function serverParser(
  { url, setting }: { readonly url: string | undefined; readonly setting: string },
  readCa: (path: string) => string,
): (text: string) => ServerAddress {
  if (url === undefined) return (text) => parseServerUrl(text, `${setting}_URL_FILE`, readCa);
  return passwordParser(url, { url: `${setting}_URL`, passwordFile: `${setting}_PASSWORD_FILE` }, readCa);
}

/** The same for a URL without a password; errors name the settings of URL and file as given here. */
export function passwordParser(
  url: string,
  names: { readonly url: string; readonly passwordFile: string },
  readCa: (path: string) => string,
): (text: string) => ServerAddress {
  const address = parseServerUrl(url, names.url, readCa);
  if (address.password.reveal() !== '')
    throw new ConfigError(`${names.url}: a password belongs into the file of ${names.passwordFile}`);
  return (text) => {
    const password = text.trim();
    if (password === '') throw new ConfigError(`${names.passwordFile}: the file is empty`);
    return { ...address, password: new Secret(password) };
  };
}

function tls(
  parameters: URLSearchParams,
  setting: string,
  readCa: (path: string) => string,
): ServerAddress['ssl'] {
  const mode = parameters.get('sslmode') ?? 'disable';
  const ca = parameters.get('sslrootcert');
  if (mode === 'disable') return false;
  if (mode !== 'verify-full') throw new ConfigError(`${setting}: sslmode must be verify-full or disable`);
  if (ca === null) return { rejectUnauthorized: true };
  const read = () => {
    let text: string;
    try {
      text = readCa(ca);
    } catch (cause) {
      throw new ConfigError(`${setting}: the file of sslrootcert cannot be read`, { cause });
    }
    if (!isWhole(text))
      throw new ConfigError(`${setting}: the file of sslrootcert holds no whole certificate`);
    return text;
  };
  let last = read();
  return {
    rejectUnauthorized: true,
    // The driver copies this for every connection, so an authority that was exchanged is the one from then on. It does so
    // where an error would end the process; and without any authority, Node believes all that are public.
    get ca() {
      try {
        last = read();
      } catch {
        // The file is away, or only a part of it is written: those who were believed still are.
      }
      return last;
    },
  };
}

const BEGINS = /^-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/gm;
const ENDS = /^-----END (?:X509 |TRUSTED )?CERTIFICATE-----/gm;

/** Whether there is a certificate, and each that begins ends. */
function isWhole(pem: string): boolean {
  const begun = pem.match(BEGINS)?.length ?? 0;
  if (begun === 0 || begun !== (pem.match(ENDS)?.length ?? 0)) return false;
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}
