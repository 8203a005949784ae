{{/*
A Space has three namespaces, by trust. In the release's people keep Capsules, Assistants and the values of stored inputs;
nothing of the Space's own runs or is stored there. Programs that act are in -system, services with data and keys in -services.
*/}}
{{- define "space.system" -}}
{{ .Release.Name }}-system
{{- end }}

{{- define "space.services" -}}
{{ .Release.Name }}-services
{{- end }}

{{/* How long nodes may still send connections to a pod that is told to end. */}}
{{- define "space.leaveSeconds" -}}
5
{{- end }}

{{/* The operator's user name at the API server. */}}
{{- define "space.operator.user" -}}
system:serviceaccount:{{ include "space.system" . }}:{{ .Release.Name }}-operator
{{- end }}

{{/*
The Space has the release's name, and its other namespaces are named after it. A name that does not allow that is refused here, and
so is a namespace that belongs to another Space. (Helm itself refuses to change another release of the same name.)
*/}}
{{- define "space.validate" -}}
{{- if not (and (regexMatch "^[a-z][a-z0-9]*(-[a-z0-9]+)*$" .Release.Name) (le (len .Release.Name) 40)) }}
{{- fail (printf "the release name %q cannot name a Space: use a lowercase letter, then lowercase letters, digits and single hyphens, at most 40 characters" .Release.Name) }}
{{- end }}
{{- if has .Release.Name (list "true" "false" "null" "yes" "no" "on" "off" "y" "n") }}
{{- fail (printf "the release name %q cannot name a Space: as a label it would be no text in YAML" .Release.Name) }}
{{- end }}
{{- if has .Release.Namespace (list (include "space.system" .) (include "space.services" .)) }}
{{- fail (printf "the chart creates the namespace %s for the programs of the Space itself; install the release into another one, such as %s" .Release.Namespace .Release.Name) }}
{{- end }}
{{- /* Two Spaces in one namespace would each act on the other's Capsules, and could read what the other keeps there. */}}
{{- $namespace := lookup "v1" "Namespace" "" .Release.Namespace | default dict }}
{{- $owner := dig "metadata" "labels" "platform.space/space" .Release.Name $namespace }}
{{- range concat (lookup "rbac.authorization.k8s.io/v1" "Role" .Release.Namespace "" | dig "items" list) (lookup "apps/v1" "Deployment" .Release.Namespace "" | dig "items" list) }}
{{- if eq (dig "metadata" "labels" "platform.space/component" "" .) "operator" }}
{{- $owner = dig "metadata" "labels" "platform.space/space" $owner . }}
{{- end }}
{{- end }}
{{- if ne $owner .Release.Name }}
{{- fail (printf "the namespace %s belongs to the Space %s; install the release %s into a namespace of its own" .Release.Namespace $owner .Release.Name) }}
{{- end }}
{{- include "space.blocks.validate" . }}
{{- include "space.validateImages" . }}
{{- include "space.network.validate" . }}
{{- include "space.s3.validate" . }}
{{- include "space.postgres.validate" . }}
{{- include "space.backup.validate" . }}
{{- include "space.podUser.validate" . }}
{{- include "space.retention.validate" . }}
{{- include "space.limits.validate" . }}
{{- include "space.monitoring.validate" . }}
{{- end }}

{{/* Helm removes a default that is null, and a rule of a NetworkPolicy without addresses or ports permits all of them. */}}
{{- define "space.network.validate" -}}
{{- $network := .Values.network }}
{{- $lists := dict "apiServerCIDRs" $network.apiServerCIDRs "apiServerPorts" $network.apiServerPorts "dns.ports" $network.dns.ports }}
{{- range $name, $list := $lists }}
{{- if not $list }}{{ fail (printf "network.%s is null or empty: a rule of a NetworkPolicy without addresses or ports would permit all of them" $name) }}{{ end }}
{{- end }}
{{- end }}

{{/* A mapping with one key twice is no valid YAML: tools refuse it, or take one of the values. */}}
{{- define "space.monitoring.validate" -}}
{{- $own := include "space.labels" . | fromYaml }}
{{- range $label, $_ := .Values.monitoring.labels }}
{{- if hasKey $own $label }}
{{- fail (printf "monitoring.labels.%s is set, but the chart sets that label itself, to %s: leave it out, and let Prometheus select by another" $label (get $own $label)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Limits that a program would refuse when it starts. The schema checks each number by itself. */}}
{{- define "space.limits.validate" -}}
{{- range $part := list "dbBroker" "egress" "objectStore" "console" }}
{{- with (index $.Values $part | default dict).connections }}
{{- if gt (mul 4 .perAddress) (.total | int64) }}
{{- fail (printf "%s.connections.perAddress is %d, which is more than a quarter of %s.connections.total (%d): one address could keep the others out" $part (int64 .perAddress) $part (int64 .total)) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.egress.limits }}
{{- if gt (.connections | int64) (.all.connections | int64) }}
{{- fail "egress.limits.connections is more than egress.limits.all.connections, which all Assistants have together" }}
{{- end }}
{{- end }}
{{- $never := "^(authorization|cookie|accept-encoding|connection|content-encoding|content-length|content-type|expect|forwarded|host|if-range|keep-alive|range|te|traceparent|tracestate|trailer|transfer-encoding|upgrade|via|x-original-url|x-rewrite-url|(proxy-|x-forwarded-|x-http-method|x-method-override).*)$" }}
{{- range .Values.egress.requestHeaders }}
{{- if regexMatch $never . }}
{{- fail (printf "egress.requestHeaders: %s says who asks, or belongs to the connection, so the gateway does not let it be added" .) }}
{{- end }}
{{- end }}
{{- range (.Values.console).origins }}
{{- if or (regexMatch "^https://.*:443$" .) (regexMatch "^http://.*:80$" .) }}
{{- fail (printf "console.origins: browsers write %s without its port, which is the usual one of its scheme; leave the port out" .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The operator accepts no more, and would not start (operator/grace.ts). The schema checks the format. */}}
{{- define "space.retention.validate" -}}
{{- $grace := (.Values.retention).grace | default "0" }}
{{- $seconds := dict "s" 1 "m" 60 "h" 3600 "d" 86400 }}
{{- if gt (mul (regexFind "^[0-9]+" $grace | int64) (get $seconds (regexFind "[smhd]$" $grace) | default 0)) 31622400 }}
{{- fail (printf "retention.grace is %s; it may be 366d at most" $grace) }}
{{- end }}
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

{{/*
The user and groups of a pod: (dict "root" . "mounts" true), with "mounts" if its group must read what it mounts. Empty if the
cluster assigns them (OpenShift gives each namespace a range, and refuses a pod that names another).
*/}}
{{- define "space.podUser" -}}
{{- if not (include "space.podUser.injected" .root) }}
runAsUser: 1000
runAsGroup: 1000
{{- if .mounts }}
fsGroup: 1000
{{- end }}
{{- end }}
{{- end }}

{{- define "space.podUser.injected" -}}
{{- if eq (.Values.podSecurity).runAsUser "injected" }}true{{ end }}
{{- end }}

{{- define "space.podUser.validate" -}}
{{- if and (include "space.podUser.injected" .) (include "space.postgres.embedded" .) }}
{{- fail "podSecurity.runAsUser is injected, but the embedded PostgreSQL can run only as the user 999, to which its image and its volume belong: name a PostgreSQL of yours in postgres.external.host, or leave podSecurity.runAsUser fixed and permit the pods of the Space the users that they name, as docs/chart.md says under OpenShift" }}
{{- end }}
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

{{/* Where the Space's own pods may run; for Assistants their RuntimeClass decides. */}}
{{- define "space.scheduling" -}}
{{- with .Values.scheduling.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.scheduling.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.scheduling.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.scheduling.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* PostgreSQL and the S3 server are one pod each, and the Space needs both. On the same node, fewer drains or losses stop the Space. */}}
{{- define "space.scheduling.engine" -}}
{{- include "space.scheduling" . }}
{{- if and (include "space.postgres.embedded" .) (include "space.s3.embedded" .) (not .Values.scheduling.affinity) }}
affinity:
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: { platform.space/space: {{ .Release.Name }} }
            matchExpressions:
              - { key: platform.space/component, operator: In, values: [postgres, s3] }
{{- end }}
{{- end }}

{{/* Spreads replicas over nodes, as far as there are enough: (dict "root" . "component" "operator" "replicas" 2) */}}
{{- define "space.spread" -}}
{{- if gt (int .replicas) 1 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "space.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{/*
Lets a drain evict one replica at a time: the same, with "name" and "namespace". With a single replica it would block every drain.
Replicas that are not ready may always be evicted: those of the object-storage broker wait for PostgreSQL, and a drain that waits for them
would never end if PostgreSQL's volume is on the drained node.
*/}}
{{- define "space.disruption" -}}
{{- if gt (int .replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "space.componentLabels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "space.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "space.secret.dbAdmin" -}}{{ .Values.existingSecrets.dbAdmin | default "db-admin" }}{{- end }}
{{- define "space.secret.dbBrokerKeys" -}}{{ .Values.existingSecrets.dbBrokerKeys | default "db-broker-keys" }}{{- end }}
{{- define "space.secret.dbProvisioner" -}}{{ .Values.existingSecrets.dbProvisioner | default "db-provisioner" }}{{- end }}
{{- define "space.secret.egressProvisioner" -}}{{ .Values.existingSecrets.egressProvisioner | default "egress-provisioner" }}{{- end }}
{{- define "space.secret.egressObserver" -}}{{ .Values.existingSecrets.egressObserver | default "egress-observer" }}{{- end }}
{{- define "space.secret.egressKeys" -}}{{ .Values.existingSecrets.egressKeys | default "egress-keys" }}{{- end }}
{{- define "space.secret.objectStoreRegistry" -}}{{ .Values.existingSecrets.objectStoreRegistry | default "objectstore-registry" }}{{- end }}
{{- define "space.secret.objectStoreKeys" -}}{{ .Values.existingSecrets.objectStoreKeys | default "objectstore-keys" }}{{- end }}
{{- define "space.secret.objectStoreProvisioner" -}}{{ .Values.existingSecrets.objectStoreProvisioner | default "objectstore-provisioner" }}{{- end }}
{{- define "space.secret.objectStoreGrants" -}}{{ .Values.existingSecrets.objectStoreGrants | default "objectstore-grants" }}{{- end }}
{{- define "space.secret.consoleSession" -}}{{ .Values.existingSecrets.consoleSession | default "console-session" }}{{- end }}
{{- define "space.secret.backupKeys" -}}{{ .Values.existingSecrets.backupKeys | default "backup-keys" }}{{- end }}
{{- define "space.secret.s3Root" -}}{{ .Values.existingSecrets.s3Root | default "s3-root" }}{{- end }}

{{/* Annotation of objects that stay after an uninstallation: the services' namespace, with its volumes and keys. */}}
{{- define "space.keep" -}}
{{- if .Values.keepOnUninstall }}
annotations: { helm.sh/resource-policy: keep }
{{- end }}
{{- end }}

{{/*
The pods that may reach a broker's control listener: discovery is public inside the Space's private network, and everything else
there needs a credential. Each pod's own policy decides whether it may connect to it.
*/}}
{{- define "space.discovery" -}}
- namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ list (include "space.system" .) (include "space.services" .) | toJson }}
  podSelector:
    matchLabels: { platform.space/space: {{ .Release.Name }} }
    matchExpressions: [{ key: platform.space/component, operator: Exists }]
{{- end }}

{{/* Egress to the API server. */}}
{{- define "space.apiServer" -}}
- to:
    {{- range .Values.network.apiServerCIDRs }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  ports:
    {{- range .Values.network.apiServerPorts }}
    - { port: {{ . }} }
    {{- end }}
{{- end }}

{{/* Egress to the cluster's DNS, for platform services only; Assistants have none. */}}
{{- define "space.dns" -}}
- to:
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ .Values.network.dns.namespace | quote }} } }
      podSelector: { matchLabels: {{ .Values.network.dns.podLabels | default (dict "k8s-app" "kube-dns") | toJson }} }
    {{- range .Values.network.dns.cidrs }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  ports:
    {{- range .Values.network.dns.ports }}
    - { port: {{ . }}, protocol: UDP }
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
{{- end }}

{{/* Egress to an external server, by address blocks on its port or to its pods: (dict "at" .Values.….external "port" 443) */}}
{{- define "space.external.rules" -}}
{{- with .at.cidrs }}
- to:
    {{- range . }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  ports: [{ protocol: TCP, port: {{ $.port }} }]
{{- end }}
{{- with .at.pods }}
{{- if .namespace }}
- to:
    - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ .namespace | quote }} } }
      podSelector: { matchLabels: {{ .labels | toJson }} }
  ports: [{ protocol: TCP, port: {{ .port }} }]
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses a selector without labels, which would select every pod: (dict "pods" .Values.….external.pods "at" "….external") */}}
{{- define "space.external.validate" -}}
{{- if and (.pods).namespace (not .pods.labels) }}
{{- fail (printf "%s.pods.namespace is set: name the labels of the server's pods in %s.pods.labels, since without them every pod of that namespace could be reached" .at .at) }}
{{- end }}
{{- end }}

{{- /* The port of an address in objectStore.byok.hosts. */}}
{{- define "space.byok.port" -}}
{{ regexFind ":[0-9]+$" . | trimPrefix ":" | default "443" }}
{{- end }}

{{- /* A quantity such as 5Gi in whole bytes. */}}
{{- define "space.bytes" -}}
{{- $text := toString . }}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $text }}
{{- $unit := trimPrefix $number $text }}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 }}
{{- if not (and $number (hasKey $units $unit)) }}
{{- fail (printf "%q is no size: write a number with a unit such as Gi" $text) }}
{{- end }}
{{- mulf $number (get $units $unit) | int64 }}
{{- end }}

{{- /* With a larger quota one Capsule alone could fill the disk of all. Takes the component with the quota, and the one with the disk. */}}
{{- define "space.checkQuota" -}}
{{- $quota := .quota.defaultQuotaBytes | int64 }}
{{- $size := .disk.storage.size }}
{{- if gt $quota (include "space.bytes" $size | int64) }}
{{- fail (printf "%s.defaultQuotaBytes is %d, which is more than the disk that all Capsules share (%s.storage.size: %s); lower the quota or enlarge the disk" .of $quota .on (toString $size)) }}
{{- end }}
{{- end }}

{{- /* The API server would refuse another size or class of a StatefulSet's claim halfway through an upgrade, without saying what to do. `storage` must be that of `of`. */}}
{{- define "space.sameVolume" -}}
{{- $made := lookup "apps/v1" "StatefulSet" (include "space.services" .root) .of | default dict }}
{{- range dig "spec" "volumeClaimTemplates" list $made }}
{{- $had := dig "spec" "resources" "requests" "storage" "" . | toString }}
{{- if regexMatch "^[0-9]+([KMGTP]i|[kMGTP])?$" $had }}
{{- if ne (include "space.bytes" $had) (include "space.bytes" $.storage.size) }}
{{- fail (printf "%s.storage.size is %s, but the volume was created with %s: enlarge the claim and delete the StatefulSet without its pod first (docs/postgres.md, \"A larger volume\"); nothing was changed" $.of (toString $.storage.size) $had) }}
{{- end }}
{{- end }}
{{- $class := dig "spec" "storageClassName" "" . }}
{{- if ne $class ($.storage.className | default "") }}
{{- fail (printf "%s.storage.className is %q, but the volume was created with %q, which is the class that it keeps: set the value back; nothing was changed" $.of ($.storage.className | default "") $class) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The API server's addresses, if they were narrowed: the gateway connects to none of them. A JSON array. */}}
{{- define "space.narrowApiServer" -}}
{{- $narrow := list }}
{{- range .Values.network.apiServerCIDRs }}
{{- if not (hasSuffix "/0" .) }}{{ $narrow = append $narrow . }}{{ end }}
{{- end }}
{{- toJson $narrow }}
{{- end }}

{{- /* The Role that names the principals that the console may read; the operator writes its rules. */ -}}
{{- define "space.console.role" -}}
{{ .Release.Name }}-console-principals
{{- end }}
