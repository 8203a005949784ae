{{- define "space.keys" -}}
{{ .Release.Name }}-keys
{{- end }}

{{/* Objects that the operator's pods mount or are pulled with, and that the program does not create. */}}
{{- define "space.keys.mounted" -}}
{{- $secrets := list }}
{{- range .Values.image.pullSecrets }}{{ $secrets = append $secrets .name }}{{ end }}
{{- range list "dbProvisioner" "egressProvisioner" "objectStoreProvisioner" "objectStoreGrants" }}
{{- with get $.Values.existingSecrets . }}{{ $secrets = append $secrets . }}{{ end }}
{{- end }}
{{- $maps := list }}
{{- if .Values.tls.enabled }}{{ with .Values.tls.existingCA }}{{ $maps = append $maps . }}{{ end }}{{ end }}
{{- dict "secrets" $secrets "configMaps" $maps | toJson }}
{{- end }}

{{/* Volume claims of the servers that the Space runs itself, as JSON */}}
{{- define "space.keys.volumes" -}}
{{- $volumes := list }}
{{- if include "space.postgres.embedded" . }}{{ $volumes = append $volumes "data-postgres-0" }}{{ end }}
{{- if include "space.s3.embedded" . }}{{ $volumes = append $volumes "data-s3-0" }}{{ end }}
{{- toJson $volumes }}
{{- end }}

{{/* The program's options; see operator/keys/options.ts. */}}
{{- define "space.keys.options" -}}
{{- $given := list }}
{{- range $value, $name := .Values.existingSecrets }}
{{- if $name }}{{ $given = append $given $value }}{{ end }}
{{- end }}
{{- $options := dict
  "space" .Release.Name
  "releaseNamespace" .Release.Namespace
  "systemNamespace" (include "space.system" .)
  "servicesNamespace" (include "space.services" .)
  "objectStore" .Values.objectStore.enabled
  "byok" (and .Values.objectStore.enabled .Values.objectStore.dataPlane.byok)
  "console" ((.Values.console).enabled | default false)
  "backup" ((.Values.backup).enabled | default false)
  "tls" .Values.tls.enabled
  "volumes" (include "space.keys.volumes" . | fromJsonArray)
  "given" $given
  "mounted" (include "space.keys.mounted" . | fromJson) }}
{{- if and .Values.tls.enabled (not .Values.tls.existingCA) }}
{{- $services := dict }}
{{- range $key, $one := include "space.tls.services" . | fromYaml }}
{{- $_ := set $services $one.service (dict "place" (dig "place" "services" $one) "names" $one.names) }}
{{- end }}
{{- $days := dict "services" $services "days" (int .Values.tls.certificateDays) "authorityDays" (int .Values.tls.caDays) "authorityStepMinutes" (int (.Values.tls.caStepMinutes | default 45)) }}
{{- $_ := set $options "certificates" $days }}
{{- end }}
{{- toJson $options }}
{{- end }}

{{/* Rules for the Secrets that the program maintains, and nothing else: (dict "root" . "place" "services" "verbs" "[get]") */}}
{{- define "space.keys.rules" -}}
{{- $root := .root }}
{{- $options := include "space.keys.options" $root | fromJson }}
{{- $kept := dict "dbProvisioner" "db-provisioner" "egressProvisioner" "egress-provisioner" }}
{{- if $options.objectStore }}
{{- $_ := set $kept "objectStoreProvisioner" "objectstore-provisioner" }}
{{- end }}
{{- if $options.byok }}
{{- $_ := set $kept "objectStoreGrants" "objectstore-grants" }}
{{- end }}
{{- if eq .place "services" }}
{{- $kept = merge $kept (dict "dbAdmin" "db-admin" "dbBrokerKeys" "db-broker-keys" "egressKeys" "egress-keys") }}
{{- if $options.objectStore }}
{{- $kept = merge $kept (dict "objectStoreRegistry" "objectstore-registry" "objectStoreKeys" "objectstore-keys" "s3Root" "s3-root") }}
{{- end }}
{{- end }}
{{- if and $options.console (eq .place "system") }}
{{- $_ := set $kept "consoleSession" "console-session" }}
{{- end }}
{{- if $options.console }}
{{- $_ := set $kept "egressObserver" "egress-observer" }}
{{- end }}
{{- if and $options.backup (eq .place "services") }}
{{- $_ := set $kept "backupKeys" "backup-keys" }}
{{- end }}
{{- range $options.given }}{{ $kept = omit $kept . }}{{ end }}
{{- $secrets := values $kept | sortAlpha }}
{{- $maps := list }}
{{- if hasKey $options "certificates" }}
{{- $maps = append $maps "space-ca" }}
{{- if eq .place "services" }}
{{- $secrets = append $secrets "space-ca" }}
{{- end }}
{{- $place := .place }}
{{- range $service, $one := $options.certificates.services }}
{{- if eq $one.place $place }}{{ $secrets = append $secrets (printf "%s-tls" $service) }}{{ end }}
{{- end }}
{{- end }}
{{- if eq .place "services" }}{{ $maps = append $maps "space-keys" }}{{ end }}
{{- if $secrets }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ $secrets | toJson }}
  verbs: {{ .verbs }}
{{- end }}
{{- if $maps }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ $maps | toJson }}
  verbs: {{ .verbs }}
{{- end }}
{{- end }}

{{/* (dict "root" . "command" "keep" "account" "home-keys") */}}
{{- define "space.keys.pod" -}}
{{- $root := .root }}
metadata:
  labels: {{- include "space.componentLabels" (dict "root" $root "component" "keys") | nindent 4 }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ .account }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  securityContext:
    {{- include "space.podSecurity" $root | nindent 4 }}
    {{- include "space.podUser" (dict "root" $root) | nindent 4 }}
  {{- include "space.imagePull" $root | nindent 2 }}
  {{- include "space.scheduling" $root | nindent 2 }}
  containers:
    - name: keys
      image: {{ include "space.image" (dict "root" $root "image" $root.Values.operator.image) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [node, /app/keys.mjs, {{ .command }}]
      env:
        - { name: KEYS, value: {{ include "space.keys.options" $root | quote }} }
      # All other pods of the Space wait for it, and a busy node gives time in proportion to the request.
      resources: { requests: { cpu: 100m, memory: 64Mi }, limits: { memory: 192Mi } }
      securityContext: {{- include "space.containerSecurity" $root | nindent 8 }}
{{- end }}

{{/* For the two programs of an upgrade to three namespaces, which are removed after it: (dict "root" . "command" "adopt" "namespace" "home") */}}
{{- define "space.keys.move.rules" -}}
{{- $release := .root.Release.Namespace }}
{{- $system := include "space.system" .root }}
{{- $all := "apiGroups: [\"\"], resources: [secrets, configmaps]" }}
{{- if and (eq .command "clear") (eq .namespace $release) }}
- { {{ $all }}, verbs: [list, delete] }
{{- else if eq .command "clear" }}
- { {{ $all }}, verbs: [get] }
{{- else if eq .namespace $release }}
- { {{ $all }}, verbs: [get, list, patch] }
- { apiGroups: [""], resources: [pods], verbs: [list] }
- { apiGroups: [apps], resources: [deployments], resourceNames: [{{ .root.Release.Name }}-operator], verbs: [get, delete] }
{{- else if eq .namespace $system }}
- { {{ $all }}, verbs: [get, create, update] }
- { apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [{{ .root.Release.Name }}-operator], verbs: [get] }
{{- else }}
{{ include "space.keys.rules" (dict "root" .root "place" "services" "verbs" "[get, patch]") }}
{{- end }}
{{- end }}
