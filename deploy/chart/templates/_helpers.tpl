{{- /* The image. A digest decides; the tag beside it says which version that is. */ -}}
{{- define "winpool.image" -}}
{{- with .Values.image -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}
