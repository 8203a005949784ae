import type { Report } from '../report.ts';

export interface SoakOptions {
  readonly quick: boolean;
  /** The number of kills, if it is not the usual one. */
  readonly kills?: number;
  /** Whether to run on the running Space, for soaks that can. */
  readonly cluster?: boolean;
  /** The parts to run. */
  readonly only?: readonly string[];
  /** Only list what would be tried, for soaks that can. */
  readonly list?: boolean;
  /** The number of requests of each operation, for fuzzing. */
  readonly examples?: number;
  /** The kind of S3 server, if it is not the usual one. */
  readonly server?: string;
  /** The number of events, for conformance. */
  readonly events?: number;
}

/** The report of a soak, which passed or failed as a whole. */
export interface SoakReport extends Report {
  readonly passed: boolean;
}

/** A file of this folder that `npm run soak -- NAME` can run. */
export interface Soak {
  run(options: SoakOptions): Promise<SoakReport>;
}
