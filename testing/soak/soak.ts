import type { Report } from '../report.ts';

export interface SoakOptions {
  readonly quick: boolean;
  /** For what kills: how often, where it is not to be the usual number. */
  readonly kills?: number;
  /** On the Space that is up, where there is such a form. */
  readonly cluster?: boolean;
  /** The parts that are wanted. */
  readonly only?: readonly string[];
  /** Only say what would be tried, where there is such a form. */
  readonly list?: boolean;
  /** For what tries documents: requests of each operation. */
  readonly examples?: number;
  /** The kind of S3 server, where it is not to be the usual one. */
  readonly server?: string;
  /** For what judges events: how many. */
  readonly events?: number;
}

/** What a soak reports: everything is counted to its end, and then it passed or it did not. */
export interface SoakReport extends Report {
  readonly passed: boolean;
}

/** A file of this folder that `npm run soak -- NAME` can run. */
export interface Soak {
  run(options: SoakOptions): Promise<SoakReport>;
}
