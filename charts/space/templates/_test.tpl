{{/* Metadata of each object of `helm test`: (dict "name" "namespace" "component" "weight"). It is removed once the result is printed. */}}
{{- define "space.test.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels: {{- include "space.componentLabels" .component | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
  helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
{{- end }}
