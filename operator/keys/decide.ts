import type { Stored } from './cluster.ts';
import type { Fields, Location, Material } from './materials.ts';

/** What to do about a Secret that is created once. */
export type Decision =
  | { readonly kind: 'keep' /** The places do not have the same. */; readonly differing: boolean }
  | { readonly kind: 'make'; readonly places: readonly Location[]; readonly data: Fields }
  | { readonly kind: 'derive'; readonly place: Location; readonly stored: Stored; readonly data: Fields }
  | { readonly kind: 'refuse'; readonly reason: string };

export interface Found {
  readonly stored: ReadonlyMap<Location, Stored>;
  /** Records that the Secret existed once: something may have been encrypted or handed out with it. */
  readonly promisedBy: readonly string[];
}

/**
 * Decides to create a Secret that never existed, to use one that exists, and to refuse to replace one that existed
 * once.
 */
export function decide(material: Material, { stored, promisedBy }: Found): Decision {
  for (const { data } of stored.values()) {
    const wrong = Object.entries(material.fields).find(([key, field]) => !field.isValid(data[key] ?? ''));
    if (wrong !== undefined) {
      const [key, { shape }] = wrong;
      return {
        kind: 'refuse',
        reason: `its key ${key} ${key in data ? 'is not' : 'is missing; it is'} ${shape}. It is not overwritten: write it, or name a Secret of your own in existingSecrets.${material.value}`,
      };
    }
  }
  const absent = material.places.filter((place) => !stored.has(place));
  const [first] = stored.values();
  if (first !== undefined) {
    if (absent.length > 0) return { kind: 'make', places: absent, data: whole(material, first.data) };
    return inStep(material, stored);
  }
  if (promisedBy.length > 0 && material.loss !== undefined) {
    return {
      kind: 'refuse',
      reason: `it existed and is missing, and ${material.loss}. Restore it from your backup. If it is lost for good, remove ${material.name} from ${promisedBy.join(' and ')}, and another one is created`,
    };
  }
  const made = Object.entries(material.fields).map(([key, field]) => [key, field.make()]);
  return { kind: 'make', places: material.places, data: whole(material, Object.fromEntries(made)) };
}

function inStep(material: Material, stored: Found['stored']): Decision {
  for (const [place, one] of stored) {
    const derived = material.derive?.(one.data) ?? {};
    const behind = Object.entries(derived).some(([key, text]) => one.data[key] !== text);
    if (behind) return { kind: 'derive', place, stored: one, data: derived };
  }
  const spelt = [...stored.values()].map(({ data }) =>
    Object.keys(material.fields)
      .map((key) => data[key]?.trim())
      .join('\n'),
  );
  return { kind: 'keep', differing: new Set(spelt).size > 1 };
}

function whole(material: Material, data: Fields): Fields {
  const kept = Object.keys(material.fields).map((key) => [key, data[key] ?? '']);
  return { ...Object.fromEntries(kept), ...material.derive?.(data) };
}
