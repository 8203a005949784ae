import { stringify } from 'yaml';
import { definition, KINDS } from './crds.ts';
import { policy } from './policy.ts';
import { schemas } from './schemas.ts';

const HEADER = '# Generated from the rules in manifests/rules (npm run generate).\n';
const yaml = (documents: readonly object[]) =>
  HEADER +
  documents.map((one) => stringify(one, { lineWidth: 0, aliasDuplicateObjects: false })).join('---\n');

/** Every file that is made from the rules, by its path from the repository's root. */
export function generatedFiles(): readonly { readonly path: string; readonly text: string }[] {
  const editors = Object.entries(schemas()).map(([name, schema]) => ({
    path: `manifests/schema/${name}.generated.json`,
    text: `${JSON.stringify(schema, null, 2)}\n`,
  }));
  const cluster = KINDS.flatMap((kind) => {
    const file = `${kind.plural}.yaml`;
    const crd = yaml([definition(kind)]);
    return [
      { path: `charts/space/crds/${file}`, text: crd },
      { path: `charts/space/templates/generated/${file}`, text: yaml(policyTemplate(kind)) },
    ];
  });
  return [...editors, ...cluster];
}

/** Helm fills in the release and its namespace. */
const policyTemplate = ({ plural, spec }: (typeof KINDS)[number]) =>
  policy({
    name: `{{ .Release.Name }}-${plural}`,
    namespace: '{{ .Release.Namespace }}',
    resource: plural,
    labels: {
      'app.kubernetes.io/part-of': 'space',
      'app.kubernetes.io/managed-by': '{{ .Release.Service }}',
      'platform.space/space': '{{ .Release.Name }}',
    },
    spec,
  });
