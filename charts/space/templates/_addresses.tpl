{{/*
Blocks without public hosts, which rules for the outside exclude. They are a second protection, since gateway and object-storage
broker check each address themselves, and more strictly. NAT64 embeds IPv4 addresses in IPv6 ones, with its well-known prefix or the
network's own (only the programs judge one of another length than 96). A JSON array.
*/}}
{{- define "space.addresses.private" -}}
{{- $private := list "10.0.0.0/8" "100.64.0.0/10" "127.0.0.0/8" "169.254.0.0/16" "172.16.0.0/12" "192.168.0.0/16" "fc00::/7" "fe80::/10" "::1/128" }}
{{- range prepend .Values.egress.nat64Prefixes "64:ff9b::/96" }}
{{- if hasSuffix "::/96" . }}
{{- $prefix := trimSuffix "::/96" . }}
{{- $between := ternary ":" "::" (eq (splitList ":" $prefix | len) 6) }}
{{- range list "a00:0/104" "6440:0/106" "7f00:0/104" "a9fe:0/112" "ac10:0/108" "c0a8:0/112" }}
{{- $private = append $private (printf "%s%s%s" $prefix $between .) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $private }}
{{- end }}

{{/*
An ipBlock for the outside without private blocks: (dict "root" . "cidr" "0.0.0.0/0" "denied" list), where "denied" excludes more.
The API server accepts only exceptions that are part of the block.
*/}}
{{- define "space.addresses.outside" -}}
{{- $except := list }}
{{- range concat (include "space.addresses.private" .root | fromJsonArray) (.denied | default list) | uniq }}
{{- if include "space.addresses.isPart" (dict "part" . "of" $.cidr) }}{{ $except = append $except . }}{{ end }}
{{- end }}
cidr: {{ .cidr | quote }}
{{- with $except }}
except: {{ toJson . }}
{{- end }}
{{- end }}

{{/* Whether one block is a proper part of another, "true" or nothing. For IPv6 only ::/0 is known to have parts. */}}
{{- define "space.addresses.isPart" -}}
{{- $bits := regexFind "[0-9]+$" .of | int }}
{{- $family := contains ":" .of }}
{{- if and (eq $family (contains ":" .part)) (gt (regexFind "[0-9]+$" .part | int) $bits) }}
{{- if eq $bits 0 }}true
{{- else if not $family }}
{{- $size := 1 }}
{{- range until (sub 32 $bits | int) }}{{ $size = mul $size 2 }}{{ end }}
{{- if eq (div (include "space.addresses.number" .of) $size) (div (include "space.addresses.number" .part) $size) }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "space.addresses.number" -}}
{{- $number := 0 }}
{{- range regexReplaceAll "/.*$" . "" | splitList "." }}{{ $number = add (mul $number 256) (int .) }}{{ end }}
{{- $number }}
{{- end }}

{{/* Address families of a Service; an empty value leaves them to the cluster. */}}
{{- define "space.addresses.families" -}}
{{- with .Values.network.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- end }}
