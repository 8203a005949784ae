import type { Layout } from '../../../scripts/results/expected.ts';
import type { Engines } from '../engines.ts';

/** What `setup.ts` hands to every suite. */
export interface Installed {
  readonly cluster: string;
  readonly kubectl: string;
  readonly kubeconfig: string;
  readonly space: string;
  readonly namespace: string;
  /** Reference of the example Assistant's image on this cluster. */
  readonly image: string;
  readonly severalNodes: boolean;
  /** What SPACE_SUITES names. */
  readonly layout?: Layout;
  /** Of this Space. */
  readonly engines: Engines;
}

declare module 'vitest' {
  export interface ProvidedContext {
    installed: Installed;
  }
}
