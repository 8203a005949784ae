import {
  type Definition,
  definitionOf,
  hostFault,
  isSigningProfile,
  type Manifest,
  SIGNING_PROFILES,
  slotFault,
} from '@space/manifests';
import { type Finding, no, yes } from '../conditions.ts';

/** The part of a manifest that a gateway can enforce; it never permits more than the manifest. */
export interface EgressPolicy {
  readonly allowedHosts: readonly string[];
  readonly inputs: Readonly<Record<string, Definition>>;
}

export const CLOSED: EgressPolicy = { allowedHosts: [], inputs: {} };

/** A compiled manifest: what a gateway can enforce, and whether that is all of it. */
export interface CompiledEgress {
  readonly policy: EgressPolicy;
  /**
   * True (`Ready`, or `NotNeeded` for a manifest without egress), or the first reason why the Assistant must not be
   * scheduled.
   */
  readonly finding: Finding;
}

/** Compiles a manifest. An entry that cannot be enforced permits nothing, and prevents scheduling the Assistant. */
export function compileEgress(manifest: Manifest): CompiledEgress {
  const hosts = manifest.network.allowed_hosts;
  const inputs = Object.entries(manifest.stored_inputs ?? {});
  const faults = [
    ...hosts.flatMap((host, index) => hostFaults(`network.allowed_hosts[${index}]`, host)),
    ...inputs.flatMap(([key, input]) => inputFaults(key, definitionOf(input))),
  ];
  const policy = {
    allowedHosts: hosts.filter((host) => hostFault(host) === undefined).toSorted(),
    inputs: Object.fromEntries(
      inputs
        .map(([key, input]) => [key, definitionOf(input)] as const)
        .filter(([key, definition]) => inputFaults(key, definition).length === 0),
    ),
  };
  return { policy, finding: findingOf(faults, hosts.length + inputs.length) };
}

interface Fault {
  readonly reason: 'HostNotEnforceable' | 'ForbiddenSlot' | 'UnknownHmacProfile';
  readonly says: string;
}

function inputFaults(key: string, definition: Definition): Fault[] {
  const { hmac, host } = definition;
  const slot = slotFault(definition);
  return [
    ...hostFaults(`stored_inputs.${key}.host`, host),
    ...(slot === undefined
      ? []
      : [{ reason: 'ForbiddenSlot' as const, says: `The stored input "${key}" ${slot}` }]),
    ...(hmac === undefined || isSigningProfile(hmac)
      ? []
      : [
          {
            reason: 'UnknownHmacProfile' as const,
            says: `The stored input "${key}" asks for the signing profile "${hmac}"; there are ${SIGNING_PROFILES.join(', ')}`,
          },
        ]),
  ];
}

function hostFaults(where: string, host: string): Fault[] {
  const fault = hostFault(host);
  return fault === undefined
    ? []
    : [{ reason: 'HostNotEnforceable', says: `${where}, "${shown(host)}", ${fault}` }];
}

/** The host, shortened and escaped: in a manifest it may be any text. */
function shown(host: string): string {
  const plain = host.replace(/[^\x20-\x7e]/g, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
  return plain.length > 80 ? `${plain.slice(0, 79)}…` : plain;
}

function findingOf(faults: readonly Fault[], asked: number): Finding {
  const [first] = faults;
  if (first !== undefined) {
    const others = faults.length === 1 ? '' : ` ${faults.length - 1} more like it.`;
    return no(
      first.reason,
      `${first.says}.${others} What cannot be enforced exactly is not allowed, and an Assistant that asks for it is not scheduled. Change the manifest.`,
    );
  }
  return asked === 0
    ? yes('NotNeeded', 'It asks for no host on the outside.')
    : yes('Ready', 'The gateway enforces all of it.');
}
