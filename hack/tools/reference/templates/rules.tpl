{{- /* The bounds of a field or type, then what its CEL rules say. */ -}}
{{- define "rules" -}}
{{- $rules := list }}
{{- range .Validation }}
{{- $rules = append $rules (. | replace ": {}" "" | markdownRenderFieldDoc) }}
{{- end }}
{{- range index .Markers "kubebuilder:validation:XValidation" }}
{{- $rules = append $rules (markdownRenderFieldDoc .Message) }}
{{- end }}
{{- join "<br />" $rules }}
{{- end -}}
