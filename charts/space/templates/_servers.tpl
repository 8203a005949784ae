{{/*
The further servers (docs/postgres.md, "Several servers"), with the defaults of each entry. The first server is "main", which has
the registries of both brokers. A JSON array.
*/}}
{{- define "space.servers" -}}
{{- $servers := list }}
{{- range .Values.postgres.servers }}
{{- $pods := dict "namespace" "" "labels" dict "port" 5432 }}
{{- $left := dict "port" 5432 "sslmode" "verify-full" "weight" 1 "drain" false "assistants" dict "pods" $pods }}
{{- $servers = append $servers (merge (deepCopy .) $left) }}
{{- end }}
{{- $servers | toJson }}
{{- end }}

{{/* The database broker records each Capsule's server by its name, and Assistants find each server by its host. */}}
{{- define "space.servers.validate" -}}
{{- $names := list "main" }}
{{- $first := "postgres" }}
{{- if not (include "space.postgres.embedded" .) }}{{ $first = include "space.postgres.assistantsHost" .Values.postgres.external }}{{ end }}
{{- $hosts := list $first "objectstore" "assistant-egress" "localhost" }}
{{- $drained := .Values.postgres.drain | default false }}
{{- range $index, $server := include "space.servers" . | fromJsonArray }}
{{- $at := printf "postgres.servers[%d]" $index }}
{{- $since := printf "%s is %s" $at .name }}
{{- if eq .name "main" }}
{{- fail (printf "%s, which is the name of the first server (embedded or postgres.external): set another name in %s.name" $since $at) }}
{{- end }}
{{- if has .name $names }}
{{- fail (printf "%s, as is a server before it: set another name in %s.name" $since $at) }}
{{- end }}
{{- if not .existingSecret }}
{{- fail (printf "%s: create a Secret with the password of its role space_broker in the namespace %s, under the key password, and name it in %s.existingSecret" $since (include "space.services" $) $at) }}
{{- end }}
{{- include "space.postgres.validateServer" (dict "root" $ "server" . "at" $at "since" $since) }}
{{- $host := include "space.postgres.assistantsHost" . }}
{{- if has $host $hosts }}
{{- fail (printf "%s, but Assistants already use the name %s for something else: set another name, which its certificate contains, in %s.assistants.host" $since $host $at) }}
{{- end }}
{{- $names = append $names .name }}
{{- $hosts = append $hosts $host }}
{{- if not .drain }}{{ $drained = false }}{{ end }}
{{- end }}
{{- if $drained }}
{{- fail "every server is drained (postgres.drain, and drain of each in postgres.servers), so no new Capsule could be placed: leave at least one that is not drained" }}
{{- end }}
{{- end }}

{{/* The file that the database broker reads at its start: see SERVERS_FILE in docs/configuration.md. */}}
{{- define "space.servers.file" -}}
{{- $servers := list }}
{{- range include "space.servers" . | fromJsonArray }}
{{- $folder := printf "/etc/space/servers/%s" .name }}
{{- $issued := dict "host" (include "space.postgres.assistantsHost" .) "port" (int .port) "sslmode" .sslmode }}
{{- if eq .sslmode "verify-full" }}
{{- /* The path at which the operator mounts the CAs of all servers in an Assistant. */}}
{{- $_ := set $issued "sslrootcert" "/etc/space/tls/postgres.crt" }}
{{- end }}
{{- $url := include "space.postgres.url" (dict "server" . "ca" (printf "%s/ca.crt" $folder) "role" "space_broker" "database" "space_registry") }}
{{- $servers = append $servers (dict "name" .name "url" $url "passwordFile" (printf "%s/password" $folder) "issued" $issued "weight" (int .weight) "drain" .drain) }}
{{- end }}
{{- $main := dict "weight" (.Values.postgres.weight | default 1 | int) "drain" (.Values.postgres.drain | default false) }}
{{- dict "main" $main "servers" $servers | toJson }}
{{- end }}

{{/* Data of ConfigMap db-servers. */}}
{{- define "space.servers.data" -}}
servers.json: {{ include "space.servers.file" . | quote }}
{{- range include "space.servers" . | fromJsonArray }}
{{- if eq .sslmode "verify-full" }}
{{ .name }}.crt: {{ .ca | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Volumes with that file, and with the CA and the password of each server in a folder of its own. A changed Secret is picked up. */}}
{{- define "space.servers.volume" -}}
- name: servers
  projected:
    defaultMode: 288
    sources:
      - configMap:
          name: db-servers
          items:
            - { key: servers.json, path: servers.json }
            {{- range include "space.servers" . | fromJsonArray }}
            {{- if eq .sslmode "verify-full" }}
            - { key: {{ .name }}.crt, path: {{ .name }}/ca.crt }
            {{- end }}
            {{- end }}
      {{- range include "space.servers" . | fromJsonArray }}
      - secret: { name: {{ .existingSecret | quote }}, items: [{ key: password, path: {{ .name }}/password }] }
      {{- end }}
{{- end }}

{{/* Rules of a NetworkPolicy that let a pod reach each of them. */}}
{{- define "space.servers.rules" -}}
{{- range include "space.servers" . | fromJsonArray }}
{{- include "space.external.rules" (dict "at" . "port" .port) }}
{{- end }}
{{- end }}

{{/* The list of them for the operator, see operator/config.ts. */}}
{{- define "space.servers.operator" -}}
{{- $servers := list }}
{{- range include "space.servers" . | fromJsonArray }}
{{- $servers = append $servers (include "space.postgres.server" . | fromJson) }}
{{- end }}
{{- $servers | toJson }}
{{- end }}
