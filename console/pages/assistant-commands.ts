import { checkManifest } from '@space/manifests';
import { kubectl, word } from '../html/parts.ts';
import type { Html } from '../html/template.ts';
import type { AssistantView } from '../kubernetes/space.ts';
import type { SpaceNames } from '../visit.ts';
import { digestOf } from './approval-section.ts';
import { boundOf, ENTERED_FOR, INPUT_TYPE, type StoredInput, secretOf, seenOf } from './stored-inputs.ts';
import { APPROVED, APPROVED_BY } from './timeline.ts';

/** Commands for everything that an Assistant's page shows and does. */
export function assistantCommands({ namespace }: Pick<SpaceNames, 'namespace'>, view: AssistantView): Html {
  const { name } = view.metadata;
  const digest = digestOf(view) ?? 'DIGEST';
  const of = `kubectl -n ${namespace}`;
  const checked = checkManifest(view.spec.manifest);
  const inputs = checked.ok ? Object.entries(checked.manifest.stored_inputs ?? {}) : [];
  return kubectl(
    `${of} describe assistant ${name}`,
    `${of} get assistant ${name} -o jsonpath='{.spec.manifest}'`,
    `${of} get assistant ${name} --show-managed-fields -o yaml`,
    `${of} annotate --overwrite assistant ${name} ${APPROVED}=${digest} \\
  ${APPROVED_BY}="${digest} $(kubectl auth whoami -o jsonpath='{.status.userInfo.username}')"`,
    ...inputs.flatMap(([key, input]) => enter(of, view, key, input)),
    `${of} patch assistant ${name} --type merge -p '{"spec":{"suspend":${view.spec.suspend !== true}}}'`,
  );
}

/**
 * The value comes from a file, so that it is in no shell's history. Neither `create` nor `apply --server-side` leaves a
 * copy of it in an annotation, as `apply` would.
 */
function enter(of: string, view: AssistantView, key: string, input: StoredInput): readonly string[] {
  const { name, key: field } = secretOf(view, key);
  const isBound = boundOf(view, key) !== undefined;
  // Somebody may have deleted the Secret that the Assistant names, which `replace` would not create again.
  const write = isBound ? 'apply --server-side --force-conflicts' : 'create';
  const bind = JSON.stringify({ spec: { storedInputs: { [key]: { secretKeyRef: { name, key: field } } } } });
  return [
    `${of} create secret generic ${word(name)} --type=${INPUT_TYPE} --from-file=${word(field)}=FILE --dry-run=client -o yaml \\
  | kubectl label --local -f - platform.space/capsule=${word(view.spec.capsule ?? '')} -o yaml \\
  | kubectl annotate --local -f - ${ENTERED_FOR}="${seenOf(view, key, input).definition} $(date +%s)" -o yaml | kubectl ${write} -f -`,
    ...(isBound ? [] : [`${of} patch assistant ${view.metadata.name} --type merge -p ${word(bind)}`]),
  ];
}
