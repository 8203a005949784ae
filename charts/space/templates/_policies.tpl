{{/*
The specs of every admission policy of this chart and of every binding, as JSON by kind and name. The operator compares them with
those in the API server before it schedules, and may read only these.
*/}}
{{- define "space.policies" -}}
{{- $specs := dict "ValidatingAdmissionPolicy" dict "ValidatingAdmissionPolicyBinding" dict }}
{{- range list "approve" "deploy" "generated/assistants" "generated/capsules" "operator-fence" "protected-marks" "protections" "reserved" "sandbox-policy" }}
{{- range splitList "\n---" (include (printf "%s/%s.yaml" $.Template.BasePath .) $) }}
{{- $object := fromYaml . }}
{{- if hasKey $specs ($object.kind | default "") }}
{{- $_ := set (get $specs $object.kind) $object.metadata.name $object.spec }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $specs }}
{{- end }}
