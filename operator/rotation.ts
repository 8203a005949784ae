import type { SecretObject } from './kinds.ts';
import { ANNOTATION } from './names.ts';
import { sha256 } from './runtime/digest.ts';
import type { Happening } from './runtime/events.ts';
import type { KubeObject } from './runtime/kube-object.ts';

/**
 * A value of this form is stored as it is, so that a person can wait for it. Any other is stored as its digest, which
 * is longer than this form permits.
 */
const PLAIN = /^[A-Za-z0-9._:+-]{1,63}$/;

/**
 * The value of `platform.space/rotate` that was not served yet, in the form in which the Secret records it; undefined
 * if there is none. Each new value is one request.
 */
export function rotationAsked(object: KubeObject, secret: SecretObject | undefined): string | undefined {
  const value = object.metadata.annotations?.[ANNOTATION.rotate];
  if (value === undefined || value === '') return undefined;
  const note = PLAIN.test(value) ? value : `sha256:${sha256(value)}`;
  return secret?.metadata.annotations?.[ANNOTATION.rotated] === note ? undefined : note;
}

/**
 * The one write that serves a request: it contains the URL and the record, and applies only to the version of the
 * Secret that was read. A slower writer with an older URL gets a conflict, and so never overwrites the newer one.
 */
export function issuedPatch(
  secret: SecretObject,
  data: Readonly<Record<string, string | null>>,
  served: string | undefined,
) {
  const annotations = served === undefined ? {} : { annotations: { [ANNOTATION.rotated]: served } };
  return { metadata: { resourceVersion: secret.metadata.resourceVersion, ...annotations }, data };
}

/** The Event about whether the broker had a new password. */
export function rotationEvent(changed: boolean, consequence: string, mark: string): Happening {
  return changed
    ? {
        type: 'Normal',
        reason: 'CredentialsRotated',
        action: 'Rotate',
        note: `The database broker issued a new URL, and the old one no longer works. ${consequence}`,
      }
    : {
        type: 'Warning',
        reason: 'RotationNotMarked',
        action: 'Rotate',
        note: `The database broker has no rotation marked for it, so its URL is unchanged. Run "${mark}" in the broker's container, then give the annotation a new value.`,
      };
}
