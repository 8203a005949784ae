import { assistantName, assistantSpec } from '../rules/assistant.ts';
import { capsuleName, capsuleSpec } from '../rules/capsule.ts';
import { manifest } from '../rules/manifest.ts';
import { document, type JsonSchema, jsonSchema, resource } from './json-schema.ts';

/** The JSON Schema of a manifest, as `assistant-manifest schema` prints it. */
export const manifestSchema = (): JsonSchema => document('manifest', jsonSchema(manifest));

/** The three schemas that editors use, by name. */
export const schemas = (): Readonly<Record<'manifest' | 'assistant' | 'capsule', JsonSchema>> => ({
  manifest: manifestSchema(),
  assistant: document('assistant', resource('Assistant', assistantName, assistantSpec)),
  capsule: document('capsule', resource('Capsule', capsuleName, capsuleSpec)),
});
