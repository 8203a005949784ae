import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { parseStrictJson } from '@space/broker-kit';
import { driverDocument } from '../../manifests/driver/document.ts';
import { ConfigError } from './config.ts';
import { CONTRACT, OPERATIONS } from './contract.ts';

/**
 * Reads the driver document of the image and returns its exact bytes. Throws unless it is valid and says what
 * this broker serves, so discovery cannot drift from the routes.
 */
export function loadDriverDocument(path: string): Buffer {
  let bytes: Buffer;
  let value: unknown;
  try {
    bytes = readFileSync(path);
    value = parseStrictJson(bytes);
  } catch (error) {
    throw new ConfigError('the driver document cannot be read', { cause: error });
  }
  const document = driverDocument.safeParse(value);
  if (!document.success) {
    const where = document.error.issues.map((issue) => `/${issue.path.join('/')}: ${issue.message}`);
    throw new ConfigError(`the driver document is refused: ${where.join('; ')}`);
  }
  const served = OPERATIONS.map((name) => ({
    name,
    method: 'POST',
    path: CONTRACT[name].path,
    authority: CONTRACT[name].authority,
    request: Object.keys(CONTRACT[name].request.shape),
    response: Object.keys(CONTRACT[name].response.shape),
  }));
  if (!isDeepStrictEqual(document.data.operations, served)) {
    throw new ConfigError('the driver document does not describe the operations that are served');
  }
  return bytes;
}
