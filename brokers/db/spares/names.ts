import { randomBytes } from 'node:crypto';

/** Raise it when what a new database holds changes; spares of another version are never issued, and those of a lower one dropped. */
const TEMPLATE_VERSION = 1;

/** Names of what belongs to one installation, of which several can share a server. */
export function spareNames(installation: string, version = TEMPLATE_VERSION) {
  const family = `spc_${installation}_spare_`;
  return {
    version,
    template: `spc_${installation}_template_${version}`,
    templates: `spc_${installation}_template_`,
    /** Every spare of ours, of any version. */
    family,
    /** Spares that may be issued. */
    usable: `${family}${version}_`,
    next: () => `${family}${version}_${randomBytes(8).toString('hex')}`,
  };
}

export type SpareNames = ReturnType<typeof spareNames>;
