{{/*
The reference that a value of an image means: itself, where it is written whole, or what its parts are together:
(dict "root" . "image" .Values.operator.image). Operator and admission policies compare references as texts, so there is this
one place that puts them together. A digest says all, and the tag beside it would only be believed to.
*/}}
{{- define "space.image" -}}
{{- $image := .image }}
{{- if not (kindIs "map" $image) }}
{{- $image | default "" }}
{{- else }}
{{- $registry := $image.registry | default .root.Values.image.registry }}
{{- $name := ternary (printf "%s/%s" $registry $image.repository) $image.repository (not (empty $registry)) }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else if $image.tag }}
{{- printf "%s:%s" $name $image.tag }}
{{- else }}
{{- $name }}
{{- end }}
{{- end }}
{{- end }}

{{/* The attester that pods are made with, and after it those that admission lets in beside it: a JSON array. */}}
{{- define "space.attesters" -}}
{{- $attesters := list (include "space.image" (dict "root" . "image" .Values.sandbox.attester.image)) }}
{{- range .Values.sandbox.attester.accepted }}
{{- $attesters = append $attesters (include "space.image" (dict "root" $ "image" .)) }}
{{- end }}
{{- toJson $attesters }}
{{- end }}

{{/* Every image is named by whoever installs: a name of ours could be somebody else's in a registry, and a tag is what its registry says today. */}}
{{- define "space.validateImages" -}}
{{- $images := dict "operator.image" .Values.operator.image "dbBroker.image" .Values.dbBroker.image "egress.image" .Values.egress.image "sandbox.attester.image" .Values.sandbox.attester.image }}
{{- if .Values.objectStore.enabled }}
{{- $_ := set $images "objectStore.image" .Values.objectStore.image }}
{{- end }}
{{- if include "space.postgres.embedded" . }}
{{- $_ := set $images "postgres.image" .Values.postgres.image }}
{{- end }}
{{- if include "space.s3.embedded" . }}
{{- $_ := set $images "s3.image" .Values.s3.image }}
{{- end }}
{{- if (.Values.console).enabled }}
{{- $_ := set $images "console.image" .Values.console.image }}
{{- end }}
{{- $whole := list }}
{{- range $value, $image := $images }}
{{- if and $image (kindIs "string" $image) }}{{ $whole = append $whole $value }}{{ end }}
{{- end }}
{{- /* What an accepted attester is called has been decided by an earlier release. */}}
{{- range $index, $image := .Values.sandbox.attester.accepted }}
{{- $_ := set $images (printf "sandbox.attester.accepted[%d]" $index) $image }}
{{- end }}
{{- $missing := list }}
{{- $bare := list }}
{{- $tagged := list }}
{{- range $value, $image := $images }}
{{- $reference := include "space.image" (dict "root" $ "image" $image) }}
{{- if not $reference }}
{{- $missing = append $missing $value }}
{{- else if and (kindIs "map" $image) (not $image.digest) (not $image.tag) }}
{{- $bare = append $bare $value }}
{{- else if not (or $.Values.image.allowTags (contains "@" $reference)) }}
{{- $tagged = append $tagged $value }}
{{- end }}
{{- end }}
{{- if $missing }}
{{- fail (printf "no image is set in %s: build and push the images and name each by its digest, as docs/chart.md says under Images" (join ", " $missing)) }}
{{- else if $bare }}
{{- fail (printf "neither digest nor tag is in %s: write the digest that its registry told when the image was pushed, as docs/chart.md says under Images" (join ", " $bare)) }}
{{- else if $tagged }}
{{- fail (printf "no digest is in %s: a tag means whatever its registry says today; write NAME@sha256:…, or set image.allowTags=true" (join ", " $tagged)) }}
{{- else if and .Values.image.registry $whole }}
{{- fail (printf "image.registry is set, and a whole reference is in %s: it would not be put before that one; write repository and digest, and a registry of its own where it is elsewhere" (join ", " $whole)) }}
{{- end }}
{{- end }}
