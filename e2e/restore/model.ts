/** The types that the parts of a restore of a whole Space exchange. */
import type { Steps } from '../progress/index.ts';
import type { Finished, Kube } from '../space/kube.ts';
import type { Destination, Rendered } from './pods.ts';

export interface Restore extends Destination {
  readonly kube: Kube;
  readonly helm: (...args: string[]) => Promise<Finished>;
  /** The path of the chart, and the values that the lost Space had. */
  readonly chart: string;
  readonly values: readonly string[];
  readonly space: string;
  readonly namespace: string;
  /** The moment to restore; undefined for the end of the backup. */
  readonly at: string | undefined;
  /** Whether the backup is only tried, while its Space goes on elsewhere. */
  readonly drill: boolean;
  /** Identities of the recipient that the state was sealed for. */
  readonly identities: readonly string[];
  /** Capsules whose own S3 credentials stay in use although they were set back. */
  readonly accepted: readonly string[];
  /** Capsules whose databases are missing on their servers, and that are restored without them. */
  readonly acceptedLost: readonly string[];
  readonly parse: (yaml: string) => Rendered;
  readonly steps: Steps;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}
