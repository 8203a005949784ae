/** Values of a release with a backup, and of one whose servers are external. */
export const BACKUP = {
  existingSecrets: { backupS3: 'the-key' },
  backup: {
    enabled: true,
    recipient: 'age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p',
    s3: { endpoint: 'https://vault.example.org', bucket: 'mine', ca: 'PEM', cidrs: ['203.0.113.7/32'] },
  },
};
export const EXTERNAL = {
  existingSecrets: { ...BACKUP.existingSecrets, s3Root: 's3', dbAdmin: 'db', objectStoreRegistry: 'files' },
  objectStore: { external: { endpoint: 'https://s3.example.org', cidrs: ['203.0.113.8/32'], ca: 'PEM' } },
  postgres: {
    external: {
      host: 'pg.example.org',
      ownBackup: true,
      ca: 'PEM',
      cidrs: ['203.0.113.9/32'],
      assistants: { addresses: ['203.0.113.9'] },
    },
  },
};

/** A further external server. */
export const SERVER_B = {
  name: 'b',
  ownBackup: true,
  host: 'pg-b.databases.svc',
  port: 6432,
  ca: 'PEM',
  cidrs: ['203.0.113.16/28'],
  assistants: { host: 'pg-b', addresses: ['203.0.113.17'] },
  existingSecret: 'pg-b-admin',
};
