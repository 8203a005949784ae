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

/** The exact bytes of the image's two documents, and the parsed credential form. */
export interface Driver {
  readonly contract: Buffer;
  readonly credentials: Buffer;
  readonly form: CredentialForm;
}

/**
 * Reads `objectstore.json` and `objectstore-credentials.json`. Throws unless both are valid and the first describes
 * exactly what this broker serves, so that it cannot differ from the routes.
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
