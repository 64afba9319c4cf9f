{{/* Affinity, topology spread, node selector and tolerations of the pods. */}}
{{- define "hpa-controller.scheduling" -}}
{{- $selector := dict "matchLabels" (include "hpa-controller.selector" . | fromYaml) -}}
{{- $host := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector -}}
{{- $affinity := dict -}}
{{- if eq .Values.podAntiAffinity "soft" }}
{{- $weighted := list (dict "weight" 100 "podAffinityTerm" $host) }}
{{- $affinity = dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $weighted) }}
{{- else if eq .Values.podAntiAffinity "hard" }}
{{- $affinity = dict "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $host)) }}
{{- end }}
{{- with .Values.nodeAffinity }}
{{- $_ := set $affinity "nodeAffinity" . }}
{{- end }}
{{- $spread := list }}
{{- range .Values.topologySpreadConstraints }}
{{- $spread = append $spread (merge (dict) . (dict "labelSelector" $selector)) }}
{{- end }}
{{- $all := dict }}
{{- with $affinity }}{{ $_ := set $all "affinity" . }}{{ end }}
{{- with $spread }}{{ $_ := set $all "topologySpreadConstraints" . }}{{ end }}
{{- with .Values.nodeSelector }}{{ $_ := set $all "nodeSelector" . }}{{ end }}
{{- with .Values.tolerations }}{{ $_ := set $all "tolerations" . }}{{ end }}
{{- with $all }}{{ toYaml . }}{{ end }}
{{- end }}
