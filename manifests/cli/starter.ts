/** What `init` writes: the smallest manifest that is worth changing. */
export const starter = (schema: string): string => `# yaml-language-server: $schema=${schema}
platform:
  spec: 1
  id: my-assistant
  version: 0.1.0
  name: My Assistant
  summary: What it does, in one line
  description: What it does, for whom, and what it needs for that.
  creators:
    - "@your-handle"
  github: https://github.com/your-handle/my-assistant
  genesis: |
    You are …
network:
  # Hosts that it may reach; an empty list means none.
  allowed_hosts: []
`;
