import type { Contract } from '../contract.ts';
import { DATABASE } from '../database.ts';
import { EGRESS } from '../egress.ts';
import { OBJECT_STORE } from '../objectstore.ts';
import { listedOperations, printed } from './driver.ts';
import { openApiDocument } from './openapi.ts';

/** Every document that is made from a contract, for `scripts/generate.ts`. */
export function generated(): readonly { readonly path: string; readonly text: string }[] {
  return [
    openApi('db-broker', DATABASE),
    openApi('egress', EGRESS),
    openApi('objectstore', OBJECT_STORE),
    driver('postgres', { spec: 1, service: 'postgres', scope: 'space' }, DATABASE),
    driver(
      'objectstore',
      {
        spec: 1,
        protocol: 'platform.objectstore/v1',
        service: 'objectstore',
        scope: 'space',
        data_plane: 'brokered',
        credential_policy: 'managed-or-byok',
      },
      OBJECT_STORE,
    ),
  ];
}

const openApi = (name: string, contract: Contract) => ({
  path: `docs/wire/${name}.openapi.generated.json`,
  text: `${JSON.stringify(openApiDocument(contract), null, 2)}\n`,
});

/** `about` is what the interface fixes of the service. */
const driver = (name: string, about: object, contract: Contract) => ({
  path: `manifests/driver/${name}.json`,
  text: printed({ ...about, operations: listedOperations(contract) }),
});
