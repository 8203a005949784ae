{{/*
TLS between the Space's parts. A service that offers it has a line here, named as its key in tls.existingSecrets, and uses
the helpers below with (dict "root" . "key" "<key>"). `names` are its names in addition to its Service's;
`place` is its namespace, if not the services'.
*/}}
{{- define "space.tls.services" -}}
{{- if (.Values.console).enabled }}
# localhost is for a port-forward.
console: { service: console, place: system, names: [localhost] }
{{- end }}
dbBroker: { service: db-broker, names: [] }
egress: { service: platform-assistant-egress, names: [] }
{{- if include "space.postgres.embedded" . }}
postgres: { service: postgres, names: [postgres] }
{{- end }}
{{- if .Values.objectStore.enabled }}
objectStoreBroker: { service: objectstore-broker, names: [objectstore] }
{{- end }}
{{- if include "space.s3.embedded" . }}
s3: { service: s3, names: [] }
{{- end }}
{{- end }}

{{- define "space.tls.service" -}}
{{ get (get (include "space.tls.services" .root | fromYaml) .key) "service" }}
{{- end }}

{{- define "space.tls.namespace" -}}
{{ include (printf "space.%s" (get (include "space.tls.services" .root | fromYaml) .key | dig "place" "services")) .root }}
{{- end }}

{{/* Secret with tls.crt and tls.key, in the namespace of its service. */}}
{{- define "space.tls.secret" -}}
{{ get .root.Values.tls.existingSecrets .key | default (printf "%s-tls" (include "space.tls.service" .)) }}
{{- end }}

{{/* ConfigMap with ca.crt, in both namespaces. */}}
{{- define "space.tls.ca" -}}
{{ .Values.tls.existingCA | default "space-ca" }}
{{- end }}

{{/* What tls.writers may write in the operator's namespace: names of your certificates and of your authority, as JSON */}}
{{- define "space.tls.written" -}}
{{- $secrets := list }}
{{- $maps := list }}
{{- if .Values.tls.enabled }}
{{- with .Values.tls.existingCA }}{{ $maps = append $maps . }}{{ end }}
{{- if (.Values.console).enabled }}{{ with .Values.tls.existingSecrets.console }}{{ $secrets = append $secrets . }}{{ end }}{{ end }}
{{- end }}
{{- if and (.Values.console).enabled .Values.console.ingress.host }}
{{- with .Values.console.ingress.tlsSecret }}{{ $secrets = append $secrets . }}{{ end }}
{{- end }}
{{- dict "secrets" $secrets "configMaps" $maps | toJson }}
{{- end }}

{{/* The name that callers inside the cluster verify. */}}
{{- define "space.tls.serverName" -}}
{{ include "space.tls.service" . }}.{{ include "space.tls.namespace" . }}.svc
{{- end }}

{{- define "space.tls.url" -}}
{{ ternary "https" "http" .root.Values.tls.enabled }}://{{ include "space.tls.serverName" . }}:{{ .port }}
{{- end }}

{{- define "space.tls.scheme" -}}
{{ ternary "HTTPS" "HTTP" .Values.tls.enabled }}
{{- end }}

{{/* Environment of a service that listens, and whose health check verifies itself. */}}
{{- define "space.tls.env" -}}
{{- if .root.Values.tls.enabled }}
- { name: TLS_CERT_FILE, value: /etc/space/tls/tls.crt }
- { name: TLS_KEY_FILE, value: /etc/space/tls/tls.key }
- { name: TLS_CA_FILE, value: /etc/space/ca/ca.crt }
- { name: TLS_SERVER_NAME, value: {{ include "space.tls.serverName" . }} }
{{- end }}
{{- end }}

{{- define "space.tls.mounts" -}}
{{- if .root.Values.tls.enabled }}
- { name: tls, mountPath: /etc/space/tls, readOnly: true }
{{- end }}
{{- end }}

{{- define "space.tls.volumes" -}}
{{- if .root.Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "space.tls.secret" . | quote }}
    defaultMode: 288
    items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }]
{{- end }}
{{- end }}

{{/* The Space's CA for a caller, at /etc/space/ca/ca.crt. These take the root. */}}
{{- define "space.ca.mounts" -}}
{{- if .Values.tls.enabled }}
- { name: ca, mountPath: /etc/space/ca, readOnly: true }
{{- end }}
{{- end }}

{{- define "space.ca.volumes" -}}
{{- if .Values.tls.enabled }}
- name: ca
  configMap: { name: {{ include "space.tls.ca" . | quote }}, defaultMode: 292, items: [{ key: ca.crt, path: ca.crt }] }
{{- end }}
{{- end }}

{{/* Either your own CA signs all certificates, or the Space's does. */}}
{{- define "space.tls.validate" -}}
{{- if .Values.tls.enabled }}
{{- range $key, $_ := include "space.tls.services" . | fromYaml }}
{{- $given := get $.Values.tls.existingSecrets $key }}
{{- if and $.Values.tls.existingCA (not $given) }}
{{- fail (printf "tls.existingCA is set, so the Space signs no certificates: name a Secret in tls.existingSecrets.%s" $key) }}
{{- else if and $given (not $.Values.tls.existingCA) }}
{{- fail (printf "tls.existingSecrets.%s is set: name the ConfigMap of the authority that signed it in tls.existingCA" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
