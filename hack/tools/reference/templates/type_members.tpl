{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
The standard object metadata.
{{- else -}}
{{ .Doc | trim | replace "\n" " " | markdownRenderFieldDoc }}
{{- end -}}
{{- end -}}
