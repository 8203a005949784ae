import type { KubeObject } from '../../space/kube-object.ts';

/** The objects that a move reads, for a Space with an embedded PostgreSQL and two further servers. */

const object = (kind: string, name: string, rest: object, namespace = 'home-services'): KubeObject =>
  ({ apiVersion: 'v1', kind, metadata: { name, namespace }, ...rest }) as KubeObject;

const TO_POSTGRES = { to: [{ podSelector: { matchLabels: { part: 'postgres' } } }], ports: [{ port: 5432 }] };
const TO_B = { to: [{ ipBlock: { cidr: '203.0.113.16/28' } }], ports: [{ port: 5432 }] };
const TO_DNS = { to: [{}], ports: [{ port: 53, protocol: 'UDP' }] };

export const SPACE: readonly KubeObject[] = [
  object('Deployment', 'db-broker', {
    spec: {
      template: {
        spec: {
          serviceAccountName: undefined,
          securityContext: { runAsNonRoot: true },
          imagePullSecrets: [{ name: 'pull' }],
          volumes: [
            { name: 'admin', secret: { secretName: 'admin' } },
            { name: 'provisioner', secret: { secretName: 'provisioner' } },
            { name: 'keys', secret: { secretName: 'keys' } },
            { name: 'ca', configMap: { name: 'space-ca' } },
            { name: 'servers', projected: { sources: [{ secret: { name: 'pg-b-admin' } }] } },
          ],
          containers: [
            {
              name: 'db-broker',
              image: 'broker@sha256:1',
              env: [{ name: 'SPACE_NAME', value: 'home' }],
              securityContext: { allowPrivilegeEscalation: false },
              volumeMounts: [
                { name: 'admin', mountPath: '/etc/space/admin' },
                { name: 'keys', mountPath: '/etc/space/keys' },
                { name: 'ca', mountPath: '/etc/space/ca', readOnly: true },
                { name: 'servers', mountPath: '/etc/space/servers' },
              ],
            },
          ],
        },
      },
    },
  }),
  object('ConfigMap', 'db-servers', { data: { 'servers.json': '{}', 'b.crt': 'PEM' } }),
  object('StatefulSet', 'postgres', {
    spec: { template: { spec: { containers: [{ name: 'postgres', image: 'postgres@sha256:2' }] } } },
  }),
  object('Service', 'postgres', { spec: { clusterIP: '10.96.0.7' } }),
  object('NetworkPolicy', 'db-broker', { spec: { egress: [TO_POSTGRES, TO_B, TO_DNS] } }),
  object('NetworkPolicy', 'postgres', { spec: { podSelector: { matchLabels: { part: 'postgres' } } } }),
  object(
    'Deployment',
    'home-operator',
    {
      spec: {
        template: {
          spec: {
            containers: [
              {
                env: [
                  {
                    name: 'FURTHER_DATABASE_SERVERS',
                    value: JSON.stringify([
                      { host: 'pg-b', addresses: ['10.96.3.5', 'fd00::5'], port: 5432 },
                    ]),
                  },
                ],
              },
            ],
          },
        },
      },
    },
    'home-system',
  ),
];

export const without = (...wanted: readonly (readonly [kind: string, name: string])[]) =>
  SPACE.filter(({ kind, metadata }) => !wanted.some(([k, n]) => k === kind && n === metadata.name));

export const RULES = { TO_POSTGRES, TO_B };
