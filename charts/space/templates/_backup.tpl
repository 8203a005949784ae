{{/* Checks the values of backups: they must be complete, and nobody in the Space may be able to read them. */}}
{{- define "space.backup.validate" -}}
{{- if (.Values.backup).enabled }}
{{- $at := .Values.backup.s3 }}
{{- if not .Values.objectStore.enabled }}
{{- fail "backup.enabled is set, but the program that stores backups is part of the object store: set objectStore.enabled=true, or back up PostgreSQL by other means" }}
{{- end }}
{{- if not .Values.backup.recipient }}
{{- fail "backup.enabled is set: create a key with age-keygen, keep it outside of this cluster, and put its public half (age1…) into backup.recipient" }}
{{- end }}
{{- if not $at.bucket }}
{{- fail "backup.enabled is set: name an S3 server and a bucket that do not belong to this Space in backup.s3.endpoint and backup.s3.bucket" }}
{{- end }}
{{- if not (hasPrefix "https://" $at.endpoint) }}
{{- fail (printf "backup.s3.endpoint is %q, but backups are sent only over https" $at.endpoint) }}
{{- end }}
{{- if and (eq $at.addressing "virtual-host") (regexMatch "^https://([0-9.]+|\\[.*\\])(:[0-9]+)?$" $at.endpoint) }}
{{- fail (printf "backup.s3.addressing is virtual-host, but the host of %s is an address, which cannot contain the name of a bucket: use path, or the name of the server" $at.endpoint) }}
{{- end }}
{{- if not .Values.existingSecrets.backupS3 }}
{{- fail (printf "backup.enabled is set: create a Secret with access-key and secret-key of the bucket for backups in the namespace %s and name it in existingSecrets.backupS3" (include "space.services" .)) }}
{{- end }}
{{- if not (or $at.cidrs $at.pods.namespace) }}
{{- fail "backup.s3.endpoint is set, but no NetworkPolicy permits connections to it: name its addresses in backup.s3.cidrs or its pods in backup.s3.pods" }}
{{- end }}
{{- include "space.external.validate" (dict "pods" $at.pods "at" "backup.s3") }}
{{- with include "space.backup.unsaid" . | fromJsonArray }}
{{- fail (printf "backup.enabled is set, but the backup of a Space contains only its embedded PostgreSQL, and nothing of %s. Back up each of these servers by its own means, and confirm that in the values with ownBackup: true beside its host (docs/operations.md, \"A server beside main\")" (join ", " .)) }}
{{- end }}
{{- $own := .Values.objectStore.external | default dict }}
{{- if and (eq $at.endpoint ($own.endpoint | default "")) (eq $at.bucket ($own.bucket | default "")) }}
{{- fail (printf "backup.s3 and objectStore.external name the same bucket, %s: if that bucket is lost, its backup is lost with it" $at.bucket) }}
{{- end }}
{{- end }}
{{- end }}

{{/* PostgreSQL servers without a backup, according to the values. A JSON array. */}}
{{- define "space.backup.unsaid" -}}
{{- $unsaid := list }}
{{- if and (not (include "space.postgres.embedded" .)) (not .Values.postgres.external.ownBackup) }}{{ $unsaid = append $unsaid "postgres.external" }}{{ end }}
{{- range $index, $server := include "space.servers" . | fromJsonArray }}
{{- if not .ownBackup }}{{ $unsaid = append $unsaid (printf "postgres.servers[%d] (%s)" $index .name) }}{{ end }}
{{- end }}
{{- $unsaid | toJson }}
{{- end }}

{{/* The hosts in URLs of all servers, by the broker's names for them; a backup records them. A JSON object. */}}
{{- define "space.backup.databaseHosts" -}}
{{- $main := "postgres" }}
{{- if not (include "space.postgres.embedded" .) }}{{ $main = include "space.postgres.assistantsHost" .Values.postgres.external | trim }}{{ end }}
{{- $hosts := dict "main" $main }}
{{- range include "space.servers" . | fromJsonArray }}
{{- $_ := set $hosts .name (include "space.postgres.assistantsHost" . | trim) }}
{{- end }}
{{- $hosts | toJson }}
{{- end }}

{{- define "space.backup.prefix" -}}
{{ .Values.backup.s3.prefix | default .Release.Name }}
{{- end }}

{{/* Egress to the bucket for backups. */}}
{{- define "space.backup.egress" -}}
{{- $at := .Values.backup.s3 }}
{{- include "space.external.rules" (dict "at" $at "port" (include "space.s3.port" $at.endpoint)) | trim }}
{{- end }}

{{/* Key and, if it has one, CA of the bucket's server. These take the root. */}}
{{- define "space.backup.mounts" -}}
- { name: backup-s3, mountPath: /etc/space/backup, readOnly: true }
- { name: backup-keys, mountPath: /etc/space/backup-keys, readOnly: true }
{{- if .Values.backup.s3.ca }}
- { name: backup-ca, mountPath: /etc/space/backup-ca, readOnly: true }
{{- end }}
{{- end }}

{{- define "space.backup.volumes" -}}
- name: backup-s3
  secret:
    secretName: {{ .Values.existingSecrets.backupS3 | quote }}
    defaultMode: 288
    items: [{ key: access-key, path: access-key }, { key: secret-key, path: secret-key }]
- name: backup-keys
  secret:
    secretName: {{ include "space.secret.backupKeys" . | quote }}
    defaultMode: 288
    items: [{ key: postgres, path: postgres }, { key: bucket, path: bucket }]
{{- if .Values.backup.s3.ca }}
- name: backup-ca
  configMap: { name: backup-ca }
{{- end }}
{{- end }}

{{/* Environment of the embedded server, and of the program beside it that copies it: brokers/db/postgres/backup-settings.sh. */}}
{{- define "space.backup.postgres.env" -}}
{{- if (.Values.backup).enabled }}
{{- $at := .Values.backup.s3 }}
- { name: BACKUP_S3_HOST, value: {{ regexReplaceAll ":[0-9]+$" (trimPrefix "https://" $at.endpoint) "" | quote }} }
- { name: BACKUP_S3_PORT, value: {{ include "space.s3.port" $at.endpoint | quote }} }
- { name: BACKUP_S3_REGION, value: {{ $at.region | quote }} }
- { name: BACKUP_S3_BUCKET, value: {{ $at.bucket | quote }} }
- { name: BACKUP_S3_PREFIX, value: {{ include "space.backup.prefix" . | quote }} }
- { name: BACKUP_S3_URI_STYLE, value: {{ ternary "path" "host" (eq $at.addressing "path") }} }
{{- if $at.ca }}
- { name: BACKUP_S3_CA_FILE, value: /etc/space/backup-ca/ca.pem }
{{- end }}
- { name: BACKUP_KEEP_DAYS, value: {{ .Values.backup.keepDays | int64 | quote }} }
- { name: BACKUP_QUEUE_BYTES, value: {{ include "space.bytes" .Values.backup.postgres.queue | quote }} }
- { name: BACKUP_ARCHIVE_SECONDS, value: {{ .Values.backup.postgres.archiveSeconds | int64 | quote }} }
{{- end }}
{{- end }}

{{- define "space.backup.postgres.mounts" -}}
{{- if (.Values.backup).enabled }}
{{- include "space.backup.mounts" . }}
{{- end }}
{{- end }}

{{- define "space.backup.postgres.volumes" -}}
{{- if (.Values.backup).enabled }}
{{- include "space.backup.volumes" . }}
- name: backup-tmp
  emptyDir: { sizeLimit: 64Mi }
{{- end }}
{{- end }}

{{/* The container beside the server, which uses its socket and its volume, so it can read all data and needs no listener. */}}
{{- define "space.backup.postgres.container" -}}
{{- if (.Values.backup).enabled }}
- name: backup
  image: {{ include "space.image" (dict "root" . "image" .Values.postgres.image) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/bin/sh, /usr/share/space/backup.sh]
  env:
    - { name: BACKUP_HOURS, value: {{ .Values.backup.postgres.hours | int64 | quote }} }
    - { name: BACKUP_FULL_DAYS, value: {{ .Values.backup.postgres.fullDays | int64 | quote }} }
    {{- include "space.backup.postgres.env" . | nindent 4 }}
  resources: {{- toYaml .Values.backup.resources | nindent 4 }}
  securityContext: {{- include "space.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - { name: data, mountPath: /var/lib/postgresql/data }
    - { name: run, mountPath: /run/postgresql }
    - { name: backup-tmp, mountPath: /tmp }
    {{- include "space.backup.mounts" . | nindent 4 }}
{{- end }}
{{- end }}
