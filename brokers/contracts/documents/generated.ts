import type { Contract } from '../contract.ts';
import { DATABASE } from '../database.ts';
import { OBJECT_STORE } from '../objectstore.ts';
import { openApiDocument } from './openapi.ts';

/** Every document that is made from a contract, for `scripts/generate.ts`. */
export function generated(): readonly { readonly path: string; readonly text: string }[] {
  return [openApi('db-broker', DATABASE), openApi('objectstore', OBJECT_STORE)];
}

const openApi = (name: string, contract: Contract) => ({
  path: `docs/wire/${name}.openapi.generated.json`,
  text: `${JSON.stringify(openApiDocument(contract), null, 2)}\n`,
});
