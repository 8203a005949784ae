{{- define "space.services" -}}
{{ .Release.Name }}-services
{{- end }}

{{- define "space.labels" -}}
app.kubernetes.io/part-of: space
app.kubernetes.io/managed-by: {{ .Release.Service }}
platform.space/space: {{ .Release.Name }}
{{- end }}

{{/* Labels of one part: (dict "root" . "component" "operator") */}}
{{- define "space.componentLabels" -}}
{{ include "space.labels" .root }}
app.kubernetes.io/name: {{ .component }}
platform.space/component: {{ .component }}
{{- end }}

{{- define "space.selector" -}}
platform.space/space: {{ .root.Release.Name }}
platform.space/component: {{ .component }}
{{- end }}

{{- define "space.podSecurity" -}}
runAsNonRoot: true
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "space.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "space.imagePull" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* 32 random bytes as 43 base64url characters. */}}
{{- define "space.random" -}}
{{ randBytes 32 | replace "+" "-" | replace "/" "_" | trimSuffix "=" }}
{{- end }}

{{/* What an earlier installation stored, else a fresh value: (dict "secret" (lookup …) "key" "token" "fresh" "…") */}}
{{- define "space.kept" -}}
{{- $data := get (.secret | default dict) "data" | default dict -}}
{{- if hasKey $data .key }}{{ index $data .key | b64dec }}{{ else }}{{ .fresh }}{{ end -}}
{{- end }}

{{- define "space.secret.dbAdmin" -}}{{ .Values.existingSecrets.dbAdmin | default "db-admin" }}{{- end }}
{{- define "space.secret.dbBrokerKeys" -}}{{ .Values.existingSecrets.dbBrokerKeys | default "db-broker-keys" }}{{- end }}
{{- define "space.secret.dbProvisioner" -}}{{ .Values.existingSecrets.dbProvisioner | default "db-provisioner" }}{{- end }}
{{- define "space.secret.s3Root" -}}{{ .Values.existingSecrets.s3Root | default "s3-root" }}{{- end }}

{{/* Egress to the cluster's DNS, for platform services only; Assistants have none. */}}
{{- define "space.dns" -}}
- to:
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: kube-system } }
      podSelector: { matchLabels: { k8s-app: kube-dns } }
  ports: [{ port: 53, protocol: UDP }, { port: 53, protocol: TCP }]
{{- end }}
