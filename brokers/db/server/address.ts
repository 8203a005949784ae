import { isIP } from 'node:net';
import { Secret } from '@space/broker-kit';
import { ConfigError } from '../config.ts';
import type { AdminAddress } from './connections.ts';

const SETTING = 'ADMIN_DATABASE_URL_FILE';

/**
 * Reads the administrator's URL. TLS is `sslmode=verify-full`, or none at all (`disable`): a mode that encrypts
 * without knowing to whom is refused.
 */
export function parseAdminUrl(text: string, readCa: (path: string) => string): AdminAddress {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    throw new ConfigError(`${SETTING}: not a URL`);
  }
  const database = decodeURIComponent(url.pathname.slice(1));
  if (!/^postgres(?:ql)?:$/.test(url.protocol) || url.username === '' || database === '') {
    throw new ConfigError(`${SETTING}: needs postgresql://user:password@host:port/database`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return {
    host: isIP(host) === 6 ? host : decodeURIComponent(host),
    port: url.port === '' ? 5432 : Number(url.port),
    database,
    user: decodeURIComponent(url.username),
    password: new Secret(decodeURIComponent(url.password)),
    ssl: tls(url.searchParams.get('sslmode') ?? 'disable', url.searchParams.get('sslrootcert'), readCa),
  };
}

function tls(mode: string, caPath: string | null, readCa: (path: string) => string): AdminAddress['ssl'] {
  if (mode === 'disable') return false;
  if (mode !== 'verify-full') throw new ConfigError(`${SETTING}: sslmode must be verify-full or disable`);
  return { rejectUnauthorized: true, ...(caPath === null ? {} : { ca: readCa(caPath) }) };
}
