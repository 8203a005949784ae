import type { KubeObject } from './kube-object.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** A row of the page. */
export interface DocumentedRule {
  readonly role: string;
  readonly where: string;
  /** Accounts, as `namespace/name`. */
  readonly heldBy: readonly string[];
  readonly group: string;
  readonly resources: readonly string[];
  readonly names: readonly string[];
  readonly verbs: readonly string[];
}

const HEAD = `# Rights

This page lists what each program of a Space, and each role for people, may request of the API server. The roles are those that the chart
renders for a release \`home\` with every option enabled. \`e2e/space/chart.test.ts\` generates the page (\`npx vitest run e2e/space/chart.test.ts -u\`), and fails if it
is stale. \`e2e/space/rights-held.test.ts\` checks with a real API server that every account has these rights and no others, and
\`e2e/suites/rights.test.ts\` checks with the API server's own log that no program has a right that it does not use.

The Role \`<release>-console-principals\` is rendered without a rule: the operator writes the name of each Capsule's principal for the object store into it.
The operator itself binds \`<release>-capsule-secrets\`, in the namespace of each Capsule.

Admission policies restrict what roles cannot express: [operator.md](operator.md#what-nobody-else-touches).

| Role | Where | Held by | Resources | Names | Verbs |
| --- | --- | --- | --- | --- | --- |
`;

/** The rule that the operator writes into the one Role that the chart leaves empty. */
const KEPT: Rule = {
  apiGroups: [''],
  resources: ['secrets'],
  resourceNames: ['capsule-<capsule>-objectstore'],
  verbs: ['get'],
};

export const EVERYWHERE = 'the cluster';
export const OF_CAPSULES = 'each Capsule’s namespace';
const OF_PEOPLE = 'where somebody binds it';

/** The page `docs/rights.md`, from what the chart renders. */
export function rightsPage(objects: readonly KubeObject[]): string {
  const roles = objects.filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole');
  const bindings = objects.filter(({ kind }) => kind.endsWith('RoleBinding'));
  const rows = roles.flatMap((role) => {
    const { where, heldBy } = holdersOf(role, bindings);
    return ((role['rules'] ?? [KEPT]) as readonly Rule[]).map(
      ({ apiGroups, resources, resourceNames = [], verbs }) => {
        const group = apiGroups.filter((one) => one !== '').join(', ');
        const named = resourceNames.map((name) => `\`${name}\``).join(', ');
        return [
          role.metadata.name,
          where,
          heldBy.join(', '),
          resources.join(', ') + (group && ` (${group})`),
          named,
          verbs.join(', '),
        ];
      },
    );
  });
  return HEAD + rows.map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

function holdersOf({ kind, metadata }: KubeObject, bindings: readonly KubeObject[]) {
  const namespace = metadata.namespace ?? 'home';
  const own = bindings.filter(
    ({ kind: binding, roleRef, metadata: { namespace: at = 'home' } }) =>
      roleRef.kind === kind &&
      roleRef.name === metadata.name &&
      (binding === 'ClusterRoleBinding' || at === namespace),
  );
  const heldBy = own.flatMap(({ subjects }) => subjects.map(accountOf));
  if (kind === 'Role') return { where: namespace, heldBy };
  if (own.length > 0) return { where: EVERYWHERE, heldBy };
  return metadata.name.endsWith('-capsule-secrets')
    ? { where: OF_CAPSULES, heldBy: ['home-system/home-operator'] }
    : { where: OF_PEOPLE, heldBy: [] };
}

const accountOf = ({ namespace, name }: { readonly namespace?: string; readonly name: string }) =>
  namespace === undefined ? name : `${namespace}/${name}`;

const words = (cell: string): string[] => (cell === '' ? [] : cell.replaceAll('`', '').split(', '));

/** The rules that a page lists. */
export function rulesOn(page: string): readonly DocumentedRule[] {
  const lines = page.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| ---'));
  return lines.slice(1).map((line) => {
    const [role = '', where = '', heldBy = '', what = '', names = '', verbs = ''] = line
      .slice(2, -2)
      .split(' | ')
      .map((cell) => cell.trim());
    const [, resources = what, group = ''] = /^(.*) \((.*)\)$/.exec(what) ?? [];
    return {
      ...{ role, where, heldBy: words(heldBy), group },
      ...{ resources: words(resources), names: words(names), verbs: words(verbs) },
    };
  });
}
