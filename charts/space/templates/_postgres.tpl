{{/* Whether the Space runs a PostgreSQL itself: "true" or nothing. */}}
{{- define "space.postgres.embedded" -}}
{{- if not (.Values.postgres.external).host }}true{{ end }}
{{- end }}

{{/* A PostgreSQL of one's own is named whole: half of it would be a Space that waits for ever, or one without TLS. */}}
{{- define "space.postgres.validate" -}}
{{- if not (include "space.postgres.embedded" .) }}
{{- $external := .Values.postgres.external }}
{{- $secrets := dict "dbAdmin" "space_broker" }}
{{- if .Values.objectStore.enabled }}
{{- $_ := set $secrets "objectStoreRegistry" "space_objectstore" }}
{{- end }}
{{- range $value, $role := $secrets }}
{{- if not (get $.Values.existingSecrets $value) }}
{{- fail (printf "postgres.external.host is set: make a Secret with the password of the role %s in the namespace %s, key password, and name it in existingSecrets.%s" $role (include "space.services" $) $value) }}
{{- end }}
{{- end }}
{{- if not ($external.assistants).addresses }}
{{- fail "postgres.external.host is set, and Assistants, who have no DNS, cannot find it: name its addresses, or the ClusterIP of its Service, in postgres.external.assistants.addresses" }}
{{- end }}
{{- if not (or $external.cidrs ($external.pods).namespace) }}
{{- fail "postgres.external.host is set, and no NetworkPolicy lets anybody to it: name its addresses in postgres.external.cidrs or its pods in postgres.external.pods" }}
{{- end }}
{{- if and ($external.pods).namespace (not $external.pods.labels) }}
{{- fail "postgres.external.pods.namespace is set: name the labels of the server's pods in postgres.external.pods.labels, or every pod there could be reached" }}
{{- end }}
{{- if and (eq $external.sslmode "verify-full") (not $external.ca) }}
{{- fail "postgres.external.host is set: put the PEM of the authority that signed its certificate into postgres.external.ca, with which brokers and Assistants verify it" }}
{{- end }}
{{- if and (eq $external.sslmode "disable") .Values.tls.enabled }}
{{- fail "postgres.external.sslmode is disable, and passwords and rows would go there in plain text: use verify-full, or set tls.enabled=false for the whole Space" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Rules of a NetworkPolicy that let a pod to the PostgreSQL of one's own. */}}
{{- define "space.postgres.rules" -}}
{{- include "space.external.rules" (dict "at" .Values.postgres.external "port" .Values.postgres.external.port) }}
{{- end }}

{{/* The same, or to the Space's own. */}}
{{- define "space.postgres.egress" -}}
{{- if include "space.postgres.embedded" . -}}
- to:
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ include "space.services" . }} } }
      podSelector:
        matchLabels: {{- include "space.selector" (dict "root" . "component" "postgres") | nindent 10 }}
  ports: [{ port: 5432 }]
{{- else }}
{{- include "space.postgres.rules" . | trim }}
{{- end }}
{{- end }}

{{/* What Assistants call it, which is in their URLs. */}}
{{- define "space.postgres.assistantsHost" -}}
{{ .Values.postgres.external.assistants.host | default .Values.postgres.external.host }}
{{- end }}

{{/* For the operator: see operator/config.ts. */}}
{{- define "space.postgres.server" -}}
{{- dict
  "host" (include "space.postgres.assistantsHost" .)
  "addresses" .Values.postgres.external.assistants.addresses
  "port" (int .Values.postgres.external.port)
  "egress" (include "space.postgres.rules" . | fromYamlArray) | toJson }}
{{- end }}

{{/* A broker's way to its registry, where the password is in a Secret of yours: (dict "root" . "role" "space_broker" "database" "space_registry") */}}
{{- define "space.postgres.url" -}}
{{- $external := .root.Values.postgres.external }}
{{- $tls := ternary "verify-full&sslrootcert=/etc/space/postgres-ca/ca.crt" "disable" (eq $external.sslmode "verify-full") -}}
postgresql://{{ .role }}@{{ $external.host }}:{{ $external.port }}/{{ .database }}?sslmode={{ $tls }}
{{- end }}

{{/* Its authority, at /etc/space/postgres-ca/ca.crt. These take the root. */}}
{{- define "space.postgres.ca" -}}
{{- if and (not (include "space.postgres.embedded" .)) (eq .Values.postgres.external.sslmode "verify-full") }}true{{ end }}
{{- end }}

{{- define "space.postgres.mounts" -}}
{{- if include "space.postgres.ca" . }}
- { name: postgres-ca, mountPath: /etc/space/postgres-ca, readOnly: true }
{{- end }}
{{- end }}

{{- define "space.postgres.volumes" -}}
{{- if include "space.postgres.ca" . }}
- name: postgres-ca
  configMap: { name: postgres-ca, defaultMode: 292 }
{{- end }}
{{- end }}
