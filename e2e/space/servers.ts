/** PostgreSQL servers of a Space that runs, as Assistants know them and as its database broker reaches them. */
import type { KubeObject } from './kube-object.ts';

/** One as the operator is told of it. */
export interface DatabaseServer {
  readonly host: string;
  readonly addresses: readonly string[];
}

export const operatorOf = (space: string) => `${space}-operator`;

interface Variable {
  readonly name: string;
  readonly value?: string;
}

/** By the operator's Deployment, and the Service of the Space's own server where it has one. */
export function databaseServers(
  operator: KubeObject,
  service: KubeObject | undefined,
): readonly DatabaseServer[] {
  const { env = [] } = operator['spec'].template.spec.containers[0];
  const told = (name: string): string | undefined => env.find((one: Variable) => one.name === name)?.value;
  const own: string | undefined = service?.['spec'].clusterIP;
  const [main, further] = [told('DATABASE_SERVER'), told('FURTHER_DATABASE_SERVERS')];
  return [
    ...(main === undefined ? [] : [JSON.parse(main)]),
    ...(further === undefined ? [] : JSON.parse(further)),
    ...(own === undefined ? [] : [{ host: 'postgres', addresses: [own] }]),
  ];
}

interface Rule {
  readonly ports?: readonly { readonly port: number | string }[];
}

/** The broker's ways to the servers, by its NetworkPolicy, but not to DNS. */
export const waysToServers = (policy: KubeObject): readonly Rule[] =>
  policy['spec'].egress.filter(({ ports = [] }: Rule) => !ports.some(({ port }) => port === 53));
