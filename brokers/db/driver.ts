import { isDeepStrictEqual } from 'node:util';
import { ConfigError } from '@space/broker-kit';
import { loadDocument } from '@space/broker-kit/control';
import { DATABASE } from '@space/contracts/database';
import { listedOperations } from '@space/contracts/driver';
import { driverDocument } from '../../manifests/driver/document.ts';

/**
 * Reads the driver document of the image and returns its exact bytes. Throws unless it is valid and describes exactly
 * what this broker serves, so that the document cannot differ from the routes.
 */
export function loadDriverDocument(path: string): Buffer {
  const { bytes, value } = loadDocument(path, driverDocument, 'driver document');
  if (!isDeepStrictEqual(value.operations, listedOperations(DATABASE))) {
    throw new ConfigError('the driver document does not describe the operations that are served');
  }
  return bytes;
}
