{{- define "gvDetails" -}}
## {{ .GroupVersionString }}

{{ trim .Doc }}

Kinds:
{{- range .SortedKinds }}
{{- $type := $.TypeForKind . }}
{{- if markdownShouldRenderType $type }}
- {{ markdownRenderTypeLink $type }}
{{- end }}
{{- end }}
{{ range .SortedTypes }}
{{- template "type" . }}
{{- end }}
{{- end -}}
