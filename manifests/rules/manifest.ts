import { integrations } from './integrations.ts';
import { network } from './network.ts';
import { platform } from './platform.ts';
import type { Accepted } from './rule.ts';
import { object } from './rule.ts';
import { storedInputs } from './stored-inputs.ts';

export const manifest = object({
  title: 'Assistant manifest',
  description: 'A promise of what an Assistant is and what it may do.',
  required: { platform, network },
  optional: {
    integrations: integrations('At most 16 integrations that the Assistant asks for, each with its scopes.'),
    stored_inputs: storedInputs,
  },
  atomic: true,
});

/** A manifest as its rules accept it. */
export type Manifest = Accepted<typeof manifest>;

/** The most bytes of canonical JSON that a manifest may have, since no API server stores the largest legal one. */
export const STORAGE_LIMIT = 1_000_000;
