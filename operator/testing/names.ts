import type { SpaceNames } from '../names.ts';

/** The names of a Space for tests without an API server. */
export const names: SpaceNames = {
  space: 'home',
  namespace: 'home',
  systemNamespace: 'home-system',
  servicesNamespace: 'home-services',
  runtimeClass: 'gvisor',
  handler: 'runsc',
  attesterImage: 'registry.test/attester:1',
  handlerReport: 'node',
  onLoss: 'keep',
  graceMs: 0,
};
