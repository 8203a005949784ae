import { randomBytes } from 'node:crypto';

/** Raise it when what a new database holds changes; spares of another version are dropped, never issued. */
const TEMPLATE_VERSION = 1;

/** Names of what belongs to one installation, of which several can share a server. */
export function spareNames(installation: string) {
  const family = `spc_${installation}_spare_`;
  return {
    template: `spc_${installation}_template_${TEMPLATE_VERSION}`,
    templates: `spc_${installation}_template_`,
    /** Every spare of ours, of any version. */
    family,
    /** Spares that may be issued. */
    usable: `${family}${TEMPLATE_VERSION}_`,
    next: () => `${family}${TEMPLATE_VERSION}_${randomBytes(8).toString('hex')}`,
  };
}

export type SpareNames = ReturnType<typeof spareNames>;
