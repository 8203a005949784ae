/** A valid manifest; `changes` go over its root properties. */
export function manifest(id: string, changes: Readonly<Record<string, unknown>> = {}) {
  return {
    platform: {
      spec: 1,
      id,
      version: '1.0.0',
      name: 'Test',
      summary: 'An Assistant of a test',
      description: 'It does nothing, well.',
      creators: ['@test-er'],
      github: 'https://github.com/space/test',
      genesis: 'You do nothing, well.',
    },
    network: { allowed_hosts: [] },
    ...changes,
  };
}
