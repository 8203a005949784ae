import { dataDocument } from './api/json/openapi.ts';

/** For `scripts/generate.ts`. */
export function generated(): readonly { path: string; text: string }[] {
  return [
    {
      path: 'docs/wire/objectstore-data.openapi.generated.json',
      text: `${JSON.stringify(dataDocument(), null, 2)}\n`,
    },
  ];
}
