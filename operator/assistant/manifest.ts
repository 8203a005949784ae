import type { ManifestCheck } from '../api.ts';

export function checkManifest(value: unknown): ManifestCheck {
  const manifest = value as never;
  return { ok: true, manifest };
}
