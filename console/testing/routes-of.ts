import type { Express } from 'express';
import { everyRoute } from '../routes.ts';

/** Every page and act that a console can have, to be looked at and not to be run. */
export const EVERY_ROUTE = everyRoute({ now: () => new Date(), credentials: {} as never });

/** What Express has at each place of its order; `slash`: it is asked whatever the address is. */
type Layer = Express['router']['stack'][number] & { readonly slash?: boolean };

/** Each route of a console as Express itself has it, as `METHOD path`; of a file that pages load, without its digest. */
export function routesOf(app: Express): readonly string[] {
  return app.router.stack.flatMap(({ route, slash, name }: Layer) => {
    if (route !== undefined)
      return route.stack.map(
        ({ method }) => `${method.toUpperCase()} ${route.path.replace(/\/[0-9a-f]{16}\//, '/:digest/')}`,
      );
    // What answered at an address of its own without being a route would be missing in the list.
    if (slash !== true) throw new Error(`${name} answers at some addresses, and is no route`);
    return [];
  });
}
