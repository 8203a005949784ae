{{/*
The reference of an image value: the value itself if it is complete, or its parts put together:
(dict "root" . "image" .Values.operator.image). Operator and admission policies compare references as strings, so only this
template puts them together. A digest identifies the image, so a tag beside it is left out.
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

{{/* The attester of new pods, followed by those that admission accepts as well: a JSON array. */}}
{{- define "space.attesters" -}}
{{- $attesters := list (include "space.image" (dict "root" . "image" .Values.sandbox.attester.image)) }}
{{- range .Values.sandbox.attester.accepted }}
{{- $attesters = append $attesters (include "space.image" (dict "root" $ "image" .)) }}
{{- end }}
{{- toJson $attesters }}
{{- end }}

{{/* The installer names every image: a default name could belong to somebody else in a registry, and a tag can change there. */}}
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
{{- /* The reference of an accepted attester was chosen for an earlier release. */}}
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
{{- fail (printf "there is neither a digest nor a tag in %s: write the digest that the registry reported when the image was pushed, as docs/chart.md says under Images" (join ", " $bare)) }}
{{- else if $tagged }}
{{- fail (printf "there is no digest in %s: a tag can refer to another image tomorrow; write NAME@sha256:…, or set image.allowTags=true" (join ", " $tagged)) }}
{{- else if and .Values.image.registry $whole }}
{{- fail (printf "image.registry is set, but there is a complete reference in %s, to which it does not apply; write repository and digest, and a registry beside them if the image is in another one" (join ", " $whole)) }}
{{- end }}
{{- end }}
