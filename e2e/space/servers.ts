/** PostgreSQL servers of a running Space, as Assistants know them and as its database broker reaches them. */
import type { KubeObject } from './kube-object.ts';

/** A server as the chart describes it to the operator. */
export interface DatabaseServer {
  readonly host: string;
  readonly addresses: readonly string[];
}

export const operatorOf = (space: string) => `${space}-operator`;

interface Variable {
  readonly name: string;
  readonly value?: string;
}

/** Reads them from the operator's Deployment, and from the Service of the Space's own server if it has one. */
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

/** The broker's egress rules for the servers in its NetworkPolicy, without DNS. */
export const waysToServers = (policy: KubeObject): readonly Rule[] =>
  policy['spec'].egress.filter(({ ports = [] }: Rule) => !ports.some(({ port }) => port === 53));
