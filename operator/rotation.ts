import type { SecretObject } from './kinds.ts';
import { ANNOTATION } from './names.ts';
import { sha256 } from './runtime/digest.ts';
import type { Happening } from './runtime/events.ts';
import type { KubeObject } from './runtime/kube-object.ts';

/** Kept as it was given, so that a person can wait for it. Anything else is kept as its digest, which is never that short. */
const PLAIN = /^[A-Za-z0-9._:+-]{1,63}$/;

/**
 * What `platform.space/rotate` asks for and its Secret has not noted as served, as it will be noted there; each new
 * value is one request.
 */
export function rotationAsked(object: KubeObject, secret: SecretObject | undefined): string | undefined {
  const value = object.metadata.annotations?.[ANNOTATION.rotate];
  if (value === undefined || value === '') return undefined;
  const note = PLAIN.test(value) ? value : `sha256:${sha256(value)}`;
  return secret?.metadata.annotations?.[ANNOTATION.rotated] === note ? undefined : note;
}

/**
 * The one write that serves a request: URL and note together, and only over the Secret that was seen. Whoever was
 * slower with an older URL is refused, looks again and so never writes it over the newer one.
 */
export function issuedPatch(
  secret: SecretObject,
  data: Readonly<Record<string, string | null>>,
  served: string | undefined,
) {
  const annotations = served === undefined ? {} : { annotations: { [ANNOTATION.rotated]: served } };
  return { metadata: { resourceVersion: secret.metadata.resourceVersion, ...annotations }, data };
}

/** Tells a person whether the broker had a new password for it. */
export function rotationEvent(changed: boolean, consequence: string, mark: string): Happening {
  return changed
    ? {
        type: 'Normal',
        reason: 'CredentialsRotated',
        action: 'Rotate',
        note: `The database broker issued a new URL, and the old one opens nothing any more. ${consequence}`,
      }
    : {
        type: 'Warning',
        reason: 'RotationNotMarked',
        action: 'Rotate',
        note: `The database broker has no rotation marked for it, so its URL is as it was. Run "${mark}" in the broker's container, then give the annotation a new value.`,
      };
}
