import type { BringUp, Cluster, TakeDown } from '../model.ts';

export async function bringUp(options: BringUp): Promise<Cluster> {
  throw new Error(`the cluster ${options.name} cannot be brought up yet`);
}
export async function open(_name: string): Promise<Cluster | undefined> {
  return undefined;
}
export async function takeDown(_name: string, _options: TakeDown): Promise<void> {}
