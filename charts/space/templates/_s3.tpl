{{/* Whether the Space runs an S3 server itself: "true" or nothing. */}}
{{- define "space.s3.embedded" -}}
{{- if and .Values.objectStore.enabled (not (.Values.objectStore.external).endpoint) }}true{{ end }}
{{- end }}

{{/* Of the endpoint; its scheme's own where it names none. */}}
{{- define "space.s3.port" -}}
{{- $endpoint := .Values.objectStore.external.endpoint }}
{{- regexFind ":[0-9]+$" $endpoint | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" $endpoint)) }}
{{- end }}

{{/* An S3 server of one's own is named whole, or the broker would wait for it for ever. */}}
{{- define "space.s3.validate" -}}
{{- $external := .Values.objectStore.external | default dict }}
{{- if and .Values.objectStore.enabled $external.endpoint }}
{{- if not .Values.existingSecrets.s3Root }}
{{- fail (printf "objectStore.external.endpoint is set: make a Secret with its access-key and secret-key in the namespace %s and name it in existingSecrets.s3Root" (include "space.services" .)) }}
{{- end }}
{{- if and .Values.tls.enabled (not (hasPrefix "https:" $external.endpoint)) }}
{{- fail (printf "objectStore.external.endpoint is %s, and objects would go there in plain text: use https, or set tls.enabled=false for the whole Space" $external.endpoint) }}
{{- end }}
{{- if not (or $external.cidrs $external.pods.namespace) }}
{{- fail "objectStore.external.endpoint is set, and no NetworkPolicy lets the broker to it: name its addresses in objectStore.external.cidrs or its pods in objectStore.external.pods" }}
{{- end }}
{{- end }}
{{- end }}
