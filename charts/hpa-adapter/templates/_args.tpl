{{/* The flags of `hpa adapter`. */}}
{{- define "hpa-adapter.args" -}}
- adapter
- {{ printf "--secure-port=%v" .Values.listenPort | quote }}
- {{ printf "--health-port=%v" .Values.healthPort | quote }}
{{- if include "hpa-adapter.makesCertificate" . }}
- {{ printf "--service=%s/%s" (include "hpa-adapter.namespace" .) (include "hpa-adapter.fullname" .) | quote }}
- {{ printf "--serving-secret=%s" (include "hpa-adapter.secret" .) | quote }}
{{- else if include "hpa-adapter.mountsCertificate" . }}
- --tls-cert-file=/etc/hpa/tls/tls.crt
- --tls-private-key-file=/etc/hpa/tls/tls.key
{{- end }}
- --config=/etc/hpa/rules/config.yaml
- {{ printf "--prometheus-url=%s" (include "hpa-adapter.prometheusUrl" .) | quote }}
- {{ printf "--metrics-relist-interval=%s" .Values.metricsRelistInterval | quote }}
- {{ printf "--share-queries=%s" .Values.shareQueries | quote }}
- {{ printf "--log-level=%s" (include "hpa-adapter.logLevel" .) | quote }}
- {{ printf "--log-format=%s" .Values.logFormat | quote }}
{{- range $api := list "custom" "external" "resource" }}
{{- if not (include "hpa-adapter.serves" (list $ $api)) }}
- {{ printf "--%s-metrics=false" $api | quote }}
{{- end }}
{{- end }}
{{- with .Values.collectors }}
{{- if .enabled }}
- --collectors
{{- range .hosts }}
- {{ printf "--collector-host=%s" . | quote }}
{{- end }}
{{- range .addresses }}
- {{ printf "--collector-address=%s" . | quote }}
{{- end }}
{{- with .namespaceLabel }}
- {{ printf "--collector-namespace-label=%s" . | quote }}
{{- end }}
{{- range $server, $namespaces := .permissions }}
{{- range $namespaces }}
- {{ printf "--collector-permission=%s=%s" $server . | quote }}
{{- end }}
{{- end }}
{{- with .defaultInterval }}
- {{ printf "--default-collection-interval=%s" . | quote }}
{{- end }}
{{- with .maxAge }}
- {{ printf "--metrics-ttl=%s" . | quote }}
{{- end }}
{{- if .skipperIngress }}
- --skipper-ingress-metrics
{{- end }}
{{- if .skipperRouteGroup }}
- --skipper-routegroup-metrics
{{- end }}
{{- if .externalRps }}
- --external-rps-metrics
{{- end }}
{{- end }}
{{- end }}
{{- if include "hpa-adapter.elects" . }}
- {{ printf "--leader-elect-resource-name=%s" (include "hpa-adapter.fullname" .) | quote }}
- {{ printf "--leader-elect-resource-namespace=%s" (include "hpa-adapter.namespace" .) | quote }}
{{- end }}
{{- if .Values.scalingSchedules.enabled }}
- --scaling-schedule
{{- $defaults := list
  (list "default-scaling-window" .Values.scalingSchedules.defaultScalingWindow)
  (list "default-time-zone" .Values.scalingSchedules.defaultTimeZone)
  (list "ramp-steps" .Values.scalingSchedules.rampSteps)
}}
{{- range $defaults }}
{{- if not (kindIs "invalid" (last .)) }}
- {{ printf "--scaling-schedule-%s=%v" (first .) (last .) | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.compat }}
- {{ printf "--compat=%s" . | quote }}
{{- end }}
{{- range .Values.extraArguments }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* A number is a verbosity of klog, which logs requests as of 6 and bodies as of 8. */}}
{{- define "hpa-adapter.logLevel" -}}
{{- if kindIs "string" .Values.logLevel }}
{{- .Values.logLevel }}
{{- else if lt (int .Values.logLevel) 6 }}info
{{- else if lt (int .Values.logLevel) 8 }}debug
{{- else }}trace
{{- end }}
{{- end }}
