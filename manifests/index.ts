/**
 * The Assistant manifest and the two resources: what they may say, and whether a given one does.
 */

import type { ManifestError } from './parse/error.ts';
import { stringFaults } from './parse/judge.ts';
import { type Judgement, parserOf, storable } from './parse/parser.ts';
import { type AssistantSpec, assistantSpec } from './rules/assistant.ts';
import { type CapsuleSpec, capsuleName, capsuleSpec } from './rules/capsule.ts';
import { type Manifest, manifest } from './rules/manifest.ts';

export { canonicalJson, manifestDigest } from './canonical.ts';
export { newPowers } from './diff/powers.ts';
export {
  GRANT_ALGORITHM,
  GRANT_AUDIENCE,
  GRANT_ISSUER,
  GRANT_LENGTH,
  GRANT_LIFETIME,
  GRANT_OPERATIONS,
  GRANT_SKEW,
  GRANT_TYPE,
  type GrantClaims,
  type GrantOperation,
  grantClaims,
  grantKeyId,
  grantKeySet,
} from './driver/grant.ts';
export { hostFault } from './egress/host.ts';
export {
  foldedParameter,
  isPlainParameter,
  overridesMethod,
  parameterReadings,
} from './egress/parameter.ts';
export {
  type Definition,
  definitionDigest,
  definitionOf,
  isFramingHeader,
  isSigningProfile,
  SIGNING_PROFILES,
  type SigningProfile,
  slotFault,
} from './egress/stored-input.ts';
export { basicPairOf, LONGEST_VALUE, secretOfPair, valueFault } from './egress/value.ts';
export { type ManifestError, summarize } from './parse/error.ts';
export type { Judgement } from './parse/parser.ts';
export type { Assistant, AssistantStatus, Capsule, CapsuleStatus, StatusCondition } from './resources.ts';
export { NEVER } from './resources.ts';
export { STORAGE_LIMIT } from './rules/manifest.ts';
export type { AssistantSpec, CapsuleSpec, Manifest };

/** A manifest, deeply frozen, or all that is wrong with it in the order of the document. */
export type ManifestResult =
  | { readonly ok: true; readonly manifest: Manifest }
  | { readonly ok: false; readonly errors: readonly ManifestError[] };

const manifests = parserOf<Manifest>(manifest);
const capsules = parserOf<CapsuleSpec>(capsuleSpec);
const assistants = parserOf<AssistantSpec>(assistantSpec);

/** What cannot be stored is no Assistant's, so it is refused, although the interface allows it. */
const result = (judged: Judgement<Manifest>): ManifestResult => {
  const judgement = storable(judged);
  return judgement.ok ? { ok: true, manifest: judgement.value } : judgement;
};

/** Strict JSON text, or its bytes: one document, no duplicate keys, no `__proto__`, bounded depth and size. */
export const parseManifest = (text: string | Uint8Array): ManifestResult => result(manifests.parse(text));

/** A value that was parsed already, as the API server hands it out. */
export const checkManifest = (value: unknown): ManifestResult => result(manifests.check(value));

/** The `spec` of a Capsule. */
export const checkCapsuleSpec = (value: unknown): Judgement<CapsuleSpec> => storable(capsules.check(value));

/** The `spec` of an Assistant, its manifest included. */
export const checkAssistantSpec = (value: unknown): Judgement<AssistantSpec> =>
  storable(assistants.check(value));

/** Whether a name may be a `capsule_id` or an `app_id`: an Identifier of 1 to 40 characters that is not reserved. */
export const isId = (name: string): boolean => stringFaults(capsuleName, name).length === 0;
