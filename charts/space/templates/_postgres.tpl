{{/* Whether the Space runs a PostgreSQL itself: "true" or nothing. */}}
{{- define "space.postgres.embedded" -}}
{{- if not (.Values.postgres.external).host }}true{{ end }}
{{- end }}

{{/* The values of an external PostgreSQL must be complete: otherwise the Space would wait for ever, or lack TLS. */}}
{{- define "space.postgres.validate" -}}
{{- if not (include "space.postgres.embedded" .) }}
{{- $external := .Values.postgres.external }}
{{- $secrets := dict "dbAdmin" "space_broker" }}
{{- if .Values.objectStore.enabled }}
{{- $_ := set $secrets "objectStoreRegistry" "space_objectstore" }}
{{- end }}
{{- range $value, $role := $secrets }}
{{- if not (get $.Values.existingSecrets $value) }}
{{- fail (printf "postgres.external.host is set: create a Secret with the password of the role %s in the namespace %s, under the key password, and name it in existingSecrets.%s" $role (include "space.services" $) $value) }}
{{- end }}
{{- end }}
{{- include "space.postgres.validateServer" (dict "root" . "server" $external "at" "postgres.external" "since" "postgres.external.host is set") }}
{{- end }}
{{- include "space.servers.validate" . }}
{{- end }}

{{/*
Checks the values that every external server needs: (dict "root" . "server" .Values.postgres.external "at" "postgres.external" "since" "…is set"),
where "at" is the path of its values and "since" says why they are needed.
*/}}
{{- define "space.postgres.validateServer" -}}
{{- $server := .server }}
{{- if not ($server.assistants).addresses }}
{{- fail (printf "%s, but Assistants have no DNS and cannot find it: name its addresses, or the ClusterIP of its Service, in %s.assistants.addresses" .since .at) }}
{{- end }}
{{- if not (or $server.cidrs ($server.pods).namespace) }}
{{- fail (printf "%s, but no NetworkPolicy permits connections to it: name its addresses in %s.cidrs or its pods in %s.pods" .since .at .at) }}
{{- end }}
{{- include "space.external.validate" (dict "pods" $server.pods "at" .at) }}
{{- if and (eq $server.sslmode "verify-full") (not $server.ca) }}
{{- fail (printf "%s: put the PEM of the authority that signed its certificate into %s.ca, since brokers and Assistants verify the server with it" .since .at) }}
{{- end }}
{{- if and (eq $server.sslmode "disable") .root.Values.tls.enabled }}
{{- fail (printf "%s.sslmode is disable, so passwords and rows would be sent in plain text: use verify-full, or set tls.enabled=false for the whole Space" .at) }}
{{- end }}
{{- end }}

{{/* Rules of a NetworkPolicy that let a pod reach the external PostgreSQL. */}}
{{- define "space.postgres.rules" -}}
{{- include "space.external.rules" (dict "at" .Values.postgres.external "port" .Values.postgres.external.port) }}
{{- end }}

{{/* The same for the external PostgreSQL or the Space's own. */}}
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

{{/* The name of an external server in Assistants' URLs. It takes the server's values. */}}
{{- define "space.postgres.assistantsHost" -}}
{{ (.assistants).host | default .host }}
{{- end }}

{{/* A server in the operator's configuration, see operator/config.ts. It takes the server's values. */}}
{{- define "space.postgres.server" -}}
{{- dict
  "host" (include "space.postgres.assistantsHost" .)
  "addresses" .assistants.addresses
  "port" (int .port)
  "egress" (include "space.external.rules" (dict "at" . "port" .port) | fromYamlArray) | toJson }}
{{- end }}

{{/* The URL by which a broker connects to a server, if the password is in a Secret of yours: (dict "server" .Values.postgres.external "ca" "/etc/…" "role" "space_broker" "database" "space_registry") */}}
{{- define "space.postgres.url" -}}
{{- $tls := ternary (printf "verify-full&sslrootcert=%s" .ca) "disable" (eq .server.sslmode "verify-full") -}}
postgresql://{{ .role }}@{{ .server.host }}:{{ .server.port }}/{{ .database }}?sslmode={{ $tls }}
{{- end }}

{{/* The same for the first server and a registry: (dict "root" . "role" "space_broker" "database" "space_registry") */}}
{{- define "space.postgres.registryUrl" -}}
{{- include "space.postgres.url" (dict "server" .root.Values.postgres.external "ca" "/etc/space/postgres-ca/ca.crt" "role" .role "database" .database) }}
{{- end }}

{{/* Its CA, at /etc/space/postgres-ca/ca.crt of a broker. These take the root. */}}
{{- define "space.postgres.ca" -}}
{{- if and (not (include "space.postgres.embedded" .)) (eq .Values.postgres.external.sslmode "verify-full") }}true{{ end }}
{{- end }}

{{- define "space.postgres.mounts" -}}
{{- if include "space.postgres.ca" . }}
{{- include "space.postgres.caMount" . }}
{{- end }}
{{- end }}

{{- define "space.postgres.volumes" -}}
{{- if include "space.postgres.ca" . }}
{{- include "space.postgres.caVolume" . }}
{{- end }}
{{- end }}

{{- define "space.postgres.caMount" }}
- { name: postgres-ca, mountPath: /etc/space/postgres-ca, readOnly: true }
{{- end }}

{{- define "space.postgres.caVolume" }}
- name: postgres-ca
  configMap: { name: postgres-ca, defaultMode: 292 }
{{- end }}

{{/* The CAs of all servers, at the same path in the operator, which gives Assistants the one file. */}}
{{- define "space.postgres.operatorMounts" -}}
{{- if include "space.postgres.authorities" . | fromJsonArray }}
{{- include "space.postgres.caMount" . }}
{{- end }}
{{- end }}

{{- define "space.postgres.operatorVolumes" -}}
{{- if include "space.postgres.authorities" . | fromJsonArray }}
{{- include "space.postgres.caVolume" . }}
{{- end }}
{{- end }}

{{/* A JSON array of PEM: the CA of the first server, if it is external, and of each further one. */}}
{{- define "space.postgres.authorities" -}}
{{- $authorities := list }}
{{- if include "space.postgres.ca" . }}{{ $authorities = append $authorities .Values.postgres.external.ca }}{{ end }}
{{- range include "space.servers" . | fromJsonArray }}
{{- if eq .sslmode "verify-full" }}{{ $authorities = append $authorities .ca }}{{ end }}
{{- end }}
{{- $authorities | uniq | toJson }}
{{- end }}
