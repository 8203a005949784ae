import { BlockList, isIPv6 } from 'node:net';
import type { Protocol } from './arrows.ts';

/** The addresses to which a rule of a NetworkPolicy lets a pod connect. */
export interface Block {
  readonly cidr: string;
  readonly except: readonly string[];
  /** An empty list means all ports. */
  readonly ports: readonly { readonly protocol: Protocol; readonly port: number }[];
}

export function within(cidr: string, address: string): boolean {
  const [network = '', bits] = cidr.split('/');
  // Without this, an IPv4 address would match ::/0.
  if (isIPv6(network) !== isIPv6(address)) return false;
  const family = isIPv6(network) ? 'ipv6' : 'ipv4';
  const list = new BlockList();
  list.addSubnet(network, Number(bits), family);
  return list.check(address, family);
}

export const covers = (
  { cidr, except, ports }: Block,
  protocol: Protocol,
  { address, port }: { readonly address: string; readonly port: number },
): boolean =>
  within(cidr, address) &&
  !except.some((other) => within(other, address)) &&
  (ports.length === 0 || ports.some((open) => open.protocol === protocol && open.port === port));
