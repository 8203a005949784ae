{{/*
Checks addresses, address blocks and ports in the values. The API server refuses wrong ones, too, but only after Helm has written a part of
the release, and the programs refuse them when they start.
*/}}
{{- define "space.blocks.validate" -}}
{{- $v := .Values }}
{{- $external := $v.objectStore.external | default dict }}
{{- $blocks := dict
  "network.apiServerCIDRs" $v.network.apiServerCIDRs
  "network.dns.cidrs" $v.network.dns.cidrs
  "egress.deniedCIDRs" $v.egress.deniedCIDRs
  "egress.allowedCIDRs" $v.egress.allowedCIDRs
  "egress.nat64Prefixes" $v.egress.nat64Prefixes
  "objectStore.byok.cidrs" $v.objectStore.byok.cidrs
  "objectStore.byok.deniedBlocks" $v.objectStore.byok.deniedBlocks
  "objectStore.external.cidrs" $external.cidrs
  "postgres.external.cidrs" ($v.postgres.external).cidrs
  "console.oidc.cidrs" (($v.console).oidc).cidrs
  "backup.s3.cidrs" (($v.backup).s3).cidrs }}
{{- $addresses := dict "postgres.external.assistants.addresses" (($v.postgres.external).assistants).addresses }}
{{- range $index, $server := $v.postgres.servers }}
{{- $_ := set $blocks (printf "postgres.servers[%d].cidrs" $index) $server.cidrs }}
{{- $_ := set $addresses (printf "postgres.servers[%d].assistants.addresses" $index) ($server.assistants).addresses }}
{{- end }}
{{- range $value, $texts := $blocks }}
{{- range $texts }}
{{- with include "space.blocks.wrong" . }}{{ fail (printf "%s: %s" $value .) }}{{ end }}
{{- end }}
{{- end }}
{{- range $v.egress.nat64Prefixes }}
{{- if not (regexMatch ":.*/(32|40|48|56|64|96)$" .) }}
{{- fail (printf "egress.nat64Prefixes: %s is no prefix of a NAT64; such a prefix is of IPv6 and has 32, 40, 48, 56, 64 or 96 bits" .) }}
{{- end }}
{{- end }}
{{- range $value, $hosts := dict "egress.hosts" $v.egress.hosts "objectStore.byok.hosts" $v.objectStore.byok.hosts }}
{{- range $host, $at := $hosts }}
{{- $with := "^([0-9.]+|[[].*[]])(:[0-9]+)?$" }}
{{- $_ := set $addresses (printf "%s: %s" $value $host) (list (regexReplaceAll $with $at "${1}" | trimPrefix "[" | trimSuffix "]")) }}
{{- include "space.blocks.port" (dict "value" (printf "%s: %s" $value $host) "port" (regexReplaceAll $with (regexFind $with $at) "${2}")) }}
{{- end }}
{{- end }}
{{- range $value, $texts := $addresses }}
{{- range $texts }}
{{- if not (include "space.blocks.numbers" . | fromJsonArray) }}{{ fail (printf "%s: %s is no IPv4 or IPv6 address" $value .) }}{{ end }}
{{- end }}
{{- end }}
{{- $urls := dict "objectStore.external.endpoint" (list $external.endpoint) "backup.s3.endpoint" (list (($v.backup).s3).endpoint) "console.oidc.issuer" (list (($v.console).oidc).issuer) "console.origins" ($v.console).origins }}
{{- range $value, $texts := $urls }}
{{- range compact ($texts | default list) }}
{{- include "space.blocks.port" (dict "value" $value "port" (regexFind "^https?://[^/]*" . | regexFind ":[0-9]*$")) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Checks a port that may be missing: (dict "value" "egress.hosts" "port" ":8443") */}}
{{- define "space.blocks.port" -}}
{{- if and .port (not (regexMatch "^:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$" .port)) }}
{{- fail (printf "%s: %q is no port, which is a number from 1 to 65535" .value (trimPrefix ":" .port)) }}
{{- end }}
{{- end }}

{{/* What is wrong with the text of an address block; nothing if it is one. */}}
{{- define "space.blocks.wrong" -}}
{{- $bits := regexFind "/(0|[1-9][0-9]{0,2})$" . | trimPrefix "/" }}
{{- $numbers := include "space.blocks.numbers" (regexFind "^[^/]+" .) | fromJsonArray }}
{{- $width := ternary 8 16 (eq (len $numbers) 4) }}
{{- if or (not $numbers) (not $bits) (gt (int $bits) (mul $width (len $numbers) | int)) -}}
{{ . }} is no block of addresses, which is written as 10.0.0.0/8 or 2001:db8::/32
{{- else }}
{{- $network := list }}
{{- range $index, $number := $numbers }}
{{- /* How many bits of this number the prefix does not include, and how many values they have. */}}
{{- $free := sub (mul (add1 $index) $width) (int $bits) | max 0 | min $width | int }}
{{- $size := 1 }}
{{- range until $free }}{{ $size = mul $size 2 }}{{ end }}
{{- $network = append $network (sub $number (mod $number $size)) }}
{{- end }}
{{- if ne (toJson $network) (toJson $numbers) -}}
{{- $written := list }}
{{- range $network }}{{ $written = append $written (printf (ternary "%d" "%x" (eq $width 8)) .) }}{{ end -}}
{{ . }} has bits set after its first {{ $bits }}; the block is written as {{ join (ternary "." ":" (eq $width 8)) $written }}/{{ $bits }}
{{- end }}
{{- end }}
{{- end }}

{{/* An address as its four bytes or its eight groups of IPv6: a JSON array, which is empty if the text is no address. */}}
{{- define "space.blocks.numbers" -}}
{{- $byte := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" }}
{{- $quad := printf "%s([.]%s){3}$" $byte $byte }}
{{- $numbers := list }}
{{- if regexMatch (printf "^%s" $quad) . }}
{{- range splitList "." . }}{{ $numbers = append $numbers (int .) }}{{ end }}
{{- else }}
{{- $text := . }}
{{- /* The last two groups of IPv6 may be written as IPv4. */}}
{{- with regexFind (printf ":%s" $quad) . | trimPrefix ":" }}
{{- $bytes := splitList "." . }}
{{- $text = trimSuffix . $text }}
{{- range list 0 2 }}
{{- $text = printf "%s%x%s" $text (add (mul (index $bytes .) 256) (index $bytes (add1 .))) (ternary ":" "" (eq . 0)) }}
{{- end }}
{{- end }}
{{- $groups := "[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4})*" }}
{{- if regexMatch (printf "^(%s)?(::(%s)?)?$" $groups $groups) $text }}
{{- $halves := splitList "::" $text }}
{{- $left := first $halves | splitList ":" | compact }}
{{- $right := rest $halves | join "" | splitList ":" | compact }}
{{- $missing := sub 8 (add (len $left) (len $right)) | int }}
{{- if ternary (gt $missing 0) (eq $missing 0) (contains "::" $text) }}
{{- range until $missing }}{{ $left = append $left "0" }}{{ end }}
{{- range concat $left $right }}{{ $numbers = append $numbers (printf "0x%s" . | int64) }}{{ end }}
{{- /* The API server takes no address of IPv4 that is written as one of IPv6. */}}
{{- if eq (slice $numbers 0 6 | toJson) "[0,0,0,0,0,65535]" }}{{ $numbers = list }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $numbers }}
{{- end }}
