{{/* Whether the Space runs an S3 server itself: "true" or nothing. */}}
{{- define "space.s3.embedded" -}}
{{- if and .Values.objectStore.enabled (not (.Values.objectStore.external).endpoint) }}true{{ end }}
{{- end }}

{{/* The port of the endpoint; by default that of its scheme. */}}
{{- define "space.s3.port" -}}
{{- regexFind ":[0-9]+$" . | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .)) }}
{{- end }}

{{/* The address of the Space's bucket, for a program that reads it. These take the root. */}}
{{- define "space.s3.env" -}}
{{- $external := .Values.objectStore.external | default dict }}
{{- if $external.endpoint }}
- { name: S3_ENDPOINT, value: {{ $external.endpoint | quote }} }
- { name: S3_REGION, value: {{ $external.region | quote }} }
- { name: S3_BUCKET, value: {{ $external.bucket | quote }} }
- { name: S3_ADDRESSING, value: {{ $external.addressing | quote }} }
{{- if $external.ca }}
- { name: S3_CA_FILE, value: /etc/space/s3-ca/ca.pem }
{{- end }}
{{- else }}
- { name: S3_ENDPOINT, value: {{ include "space.tls.url" (dict "root" . "key" "s3" "port" 7070) | quote }} }
- { name: S3_CREATE_BUCKET, value: "true" }
{{- if .Values.tls.enabled }}
- { name: S3_CA_FILE, value: /etc/space/ca/ca.crt }
{{- end }}
{{- end }}
{{- end }}

{{/* Its key, and the CA of an external server; the Space's CA has another path. */}}
{{- define "space.s3.mounts" -}}
- { name: s3, mountPath: /etc/space/s3, readOnly: true }
{{- if (.Values.objectStore.external).ca }}
- { name: s3-ca, mountPath: /etc/space/s3-ca, readOnly: true }
{{- end }}
{{- end }}

{{- define "space.s3.volumes" -}}
- name: s3
  secret: { secretName: {{ include "space.secret.s3Root" . | quote }}, defaultMode: 288 }
{{- if (.Values.objectStore.external).ca }}
- name: s3-ca
  configMap: { name: objectstore-s3-ca }
{{- end }}
{{- end }}

{{/* Egress to it. */}}
{{- define "space.s3.egress" -}}
{{- $external := .Values.objectStore.external | default dict }}
{{- if $external.endpoint }}
{{- include "space.external.rules" (dict "at" $external "port" (include "space.s3.port" $external.endpoint)) | trim }}
{{- else -}}
- to:
    - podSelector:
        matchLabels: {{- include "space.selector" (dict "root" . "component" "s3") | nindent 10 }}
  ports: [{ port: 7070 }]
{{- end }}
{{- end }}

{{/* The values of an external S3 server must be complete, since otherwise the broker would wait for it for ever. */}}
{{- define "space.s3.validate" -}}
{{- $external := .Values.objectStore.external | default dict }}
{{- if and .Values.objectStore.enabled $external.endpoint }}
{{- if not .Values.existingSecrets.s3Root }}
{{- fail (printf "objectStore.external.endpoint is set: create a Secret with its access-key and secret-key in the namespace %s and name it in existingSecrets.s3Root" (include "space.services" .)) }}
{{- end }}
{{- if and .Values.tls.enabled (not (hasPrefix "https:" $external.endpoint)) }}
{{- fail (printf "objectStore.external.endpoint is %s, so objects would be sent in plain text: use https, or set tls.enabled=false for the whole Space" $external.endpoint) }}
{{- end }}
{{- if and (eq $external.addressing "virtual-host") (regexMatch "^https?://([0-9.]+|\\[.*\\])(:[0-9]+)?$" $external.endpoint) }}
{{- fail (printf "objectStore.external.addressing is virtual-host, but the host of %s is an address, which cannot contain the name of a bucket: use path, or the name of the server" $external.endpoint) }}
{{- end }}
{{- if not (or $external.cidrs $external.pods.namespace) }}
{{- fail "objectStore.external.endpoint is set, but no NetworkPolicy permits connections to it: name its addresses in objectStore.external.cidrs or its pods in objectStore.external.pods" }}
{{- end }}
{{- include "space.external.validate" (dict "pods" $external.pods "at" "objectStore.external") }}
{{- end }}
{{- end }}
