import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { ConfigError } from '@space/broker-kit';
import { loadDocument } from '@space/broker-kit/control';
import { listedOperations } from '@space/contracts/driver';
import { OBJECT_STORE } from '@space/contracts/objectstore';
import {
  type CredentialForm,
  credentialForm,
  objectStoreDocument,
} from '../../manifests/driver/objectstore.ts';

/** The two documents of the image: their exact bytes, and the form as it was understood. */
export interface Driver {
  readonly contract: Buffer;
  readonly credentials: Buffer;
  readonly form: CredentialForm;
}

/**
 * Reads `objectstore.json` and `objectstore-credentials.json`. Throws unless both are valid and the first says what
 * this broker serves, so discovery cannot drift from the routes.
 */
export function loadDriver(directory: string): Driver {
  const contract = loadDocument(join(directory, 'objectstore.json'), objectStoreDocument, 'driver document');
  if (!isDeepStrictEqual(contract.value.operations, listedOperations(OBJECT_STORE))) {
    throw new ConfigError('the driver document does not describe the operations that are served');
  }
  const form = loadDocument(
    join(directory, 'objectstore-credentials.json'),
    credentialForm,
    'credential form',
  );
  return { contract: contract.bytes, credentials: form.bytes, form: form.value };
}
