import type { KubeObject } from './kube-object.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

const HEAD = `# Rights

What each program of a Space may ask of the API server, and each role for people, of the roles as the chart renders them for a
release \`home\` with everything on. Made by \`e2e/space/chart.test.ts\` (\`npx vitest run e2e/space/chart.test.ts -u\`), which fails when it is another; that
no program holds a right that it does not use is what \`e2e/suites/rights.test.ts\` finds in the API server's own log.

The Role \`<release>-console-principals\` comes without a rule: the operator writes there the name of each Capsule's principal for the object store.

What roles cannot say, admission policies do: [operator.md](operator.md#what-nobody-else-touches).

| Role | Where | Resources | Names | Verbs |
| --- | --- | --- | --- | --- |
`;

/** What the operator writes into the one Role that the chart leaves empty. */
const KEPT: Rule = {
  apiGroups: [''],
  resources: ['secrets'],
  resourceNames: ['capsule-<capsule>-objectstore'],
  verbs: ['get'],
};

/** The page `docs/rights.md`, of what the chart renders. */
export function rightsPage(objects: readonly KubeObject[]): string {
  const everywhere = new Set(
    objects.filter(({ kind }) => kind === 'ClusterRoleBinding').map(({ roleRef }) => roleRef.name),
  );
  const where = ({ kind, metadata }: KubeObject) =>
    kind === 'Role' ? (metadata.namespace ?? 'home') : placeOf(metadata.name, everywhere);
  const roles = objects.filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole');
  const rows = roles.flatMap((role) =>
    ((role['rules'] ?? [KEPT]) as readonly Rule[]).map(
      ({ apiGroups, resources, resourceNames = [], verbs }) => {
        const group = apiGroups.filter((one) => one !== '').join(', ');
        const named = resourceNames.map((name) => `\`${name}\``).join(', ');
        return [
          role.metadata.name,
          where(role),
          resources.join(', ') + (group && ` (${group})`),
          named,
          verbs.join(', '),
        ];
      },
    ),
  );
  return HEAD + rows.map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

function placeOf(name: string, everywhere: ReadonlySet<string>): string {
  if (everywhere.has(name)) return 'the cluster';
  if (name.endsWith('-capsule-secrets')) return 'each Capsule’s namespace';
  return 'where somebody binds it';
}
