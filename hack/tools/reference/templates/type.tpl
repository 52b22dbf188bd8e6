{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}

{{ trim .Doc }}
{{ if .IsAlias }}
Underlying type: {{ markdownRenderTypeLink .UnderlyingType }}
{{ end }}
{{- if or .Validation (index .Markers "kubebuilder:validation:XValidation") }}
Rules: {{ template "rules" . }}
{{ end }}
{{- if .References }}
Used by:
{{- range $i, $type := .SortedReferences }}{{ if $i }},{{ end }} {{ markdownRenderTypeLink $type }}{{ end }}
{{ end }}
{{- if .Members }}
| Field | Description | Default | Rules |
| --- | --- | --- | --- |
{{- if .GVK }}
| `apiVersion` _string_ | `{{ .GVK.Group }}/{{ .GVK.Version }}` | | |
| `kind` _string_ | `{{ .GVK.Kind }}` | | |
{{- end }}
{{- range .Members }}
| `{{ .Name }}` _{{ markdownRenderType .Type }}_ | {{ template "type_members" . }} | {{ markdownRenderDefault .Default }} | {{ template "rules" . }} |
{{- end }}
{{ end }}
{{- if .EnumValues }}
| Value | Description |
| --- | --- |
{{- range .EnumValues }}
| `{{ .Name }}` | {{ regexReplaceAll "^[A-Z]\\w+ " (trim .Doc) "" | replace "\n" " " | markdownRenderFieldDoc }} |
{{- end }}
{{ end }}
{{- end }}
{{- end -}}
