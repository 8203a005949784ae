import { randomBytes } from 'node:crypto';

/**
 * To be increased when the content of new databases changes: spares of other versions are never issued, and those of a
 * lower one are dropped.
 */
const TEMPLATE_VERSION = 1;

/** Names that contain the installation's id, since several installations can share a server. */
export function spareNames(installation: string, version = TEMPLATE_VERSION) {
  const family = `spc_${installation}_spare_`;
  return {
    version,
    template: `spc_${installation}_template_${version}`,
    templates: `spc_${installation}_template_`,
    /** The prefix of all spares of this installation. */
    family,
    /** The prefix of spares that may be issued. */
    usable: `${family}${version}_`,
    next: () => `${family}${version}_${randomBytes(8).toString('hex')}`,
  };
}

export type SpareNames = ReturnType<typeof spareNames>;
