import { existsSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The directory of driver documents: beside the bundle in an image, and `manifests/` in a checkout; `here` is the
 * service's folder.
 */
export function driverDirectory(here: string): string {
  const beside = join(here, 'driver');
  return existsSync(beside) ? beside : join(here, '../../manifests/driver');
}
