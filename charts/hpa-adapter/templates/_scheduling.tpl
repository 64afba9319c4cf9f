{{/* Affinity, topology spread, node selector and tolerations of the pods. */}}
{{- define "hpa-adapter.scheduling" -}}
{{- $selector := dict "matchLabels" (include "hpa-adapter.selector" . | fromYaml) -}}
{{- $host := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector -}}
{{- $term := list (dict "weight" 100 "podAffinityTerm" $host) -}}
{{- $apart := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $term) -}}
{{- $spread := list }}
{{- range .Values.topologySpreadConstraints }}
{{- $spread = append $spread (merge (dict) . (dict "labelSelector" $selector)) }}
{{- end }}
{{- $all := dict "affinity" (.Values.affinity | default $apart) }}
{{- with $spread }}{{ $_ := set $all "topologySpreadConstraints" . }}{{ end }}
{{- with .Values.nodeSelector }}{{ $_ := set $all "nodeSelector" . }}{{ end }}
{{- with .Values.tolerations }}{{ $_ := set $all "tolerations" . }}{{ end }}
{{- toYaml $all }}
{{- end }}
