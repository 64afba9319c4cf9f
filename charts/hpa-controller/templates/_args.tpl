{{/* The flags of `hpa run`. A flag whose value is null is omitted and keeps its default. */}}
{{- define "hpa-controller.args" -}}
{{- $flags := list
  (list "horizontal-pod-autoscaler-sync-period" .Values.autoscaling.syncPeriod)
  (list "horizontal-pod-autoscaler-downscale-stabilization" .Values.autoscaling.downscaleStabilization)
  (list "horizontal-pod-autoscaler-tolerance" .Values.autoscaling.tolerance)
  (list "horizontal-pod-autoscaler-cpu-initialization-period" .Values.autoscaling.cpuInitializationPeriod)
  (list "horizontal-pod-autoscaler-initial-readiness-delay" .Values.autoscaling.initialReadinessDelay)
  (list "concurrent-horizontal-pod-autoscaler-syncs" .Values.autoscaling.concurrentSyncs)
  (list "scale-to-zero" .Values.autoscaling.scaleToZero)
  (list "min-sync-period" .Values.autoscaling.minSyncPeriod)
  (list "watch-scales" .Values.watchScales)
  (list "status-interval" .Values.statusInterval)
  (list "scaling-schedule-default-scaling-window" .Values.scalingSchedules.defaultScalingWindow)
  (list "scaling-schedule-default-time-zone" .Values.scalingSchedules.defaultTimeZone)
  (list "scaling-schedule-ramp-steps" .Values.scalingSchedules.rampSteps)
  (list "forecast-prometheus" .Values.forecasts.prometheusUrl)
  (list "forecast-time-zone" .Values.forecasts.timeZone)
  (list "kube-api-qps" .Values.client.qps)
  (list "kube-api-burst" .Values.client.burst)
  (list "request-timeout" .Values.client.requestTimeout)
  (list "leader-elect" (eq (include "hpa-controller.elects" .) "true"))
  (list "leader-elect-resource-name" (include "hpa-controller.lease" .))
  (list "leader-elect-lease-duration" .Values.leaderElection.leaseDuration)
  (list "leader-elect-renew-deadline" .Values.leaderElection.renewDeadline)
  (list "leader-elect-retry-period" .Values.leaderElection.retryPeriod)
  (list "keep-history" .Values.leaderElection.keepHistory)
  (list "log-level" .Values.log.level)
  (list "log-format" .Values.log.format)
  (list "shutdown-grace-period" .Values.shutdownGracePeriod)
  (list "metrics-port" .Values.metrics.port)
-}}
- run
- --in-cluster
{{- range $flags }}
{{- if not (kindIs "invalid" (last .)) }}
- {{ printf "--%s=%v" (first .) (last .) | quote }}
{{- end }}
{{- end }}
{{- if ne .Values.autoscalerApi "core" }}
- {{ printf "--autoscaler-api=%s" .Values.autoscalerApi | quote }}
{{- end }}
{{- range .Values.namespaces }}
- {{ printf "--namespace=%s" . | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.autoscaling.allowSettings) }}
- {{ printf "--allow-settings=%s" (join "," (default (list "none") .Values.autoscaling.allowSettings)) | quote }}
{{- end }}
{{- if .Values.dryRun }}
- --dry-run
{{- end }}
{{- if .Values.allowOtherController }}
- --allow-other-controller
{{- end }}
{{- if .Values.scalingSchedules.enabled }}
- --scaling-schedule
{{- end }}
{{- with .Values.collectors }}
{{- if .enabled }}
- --collectors
{{- if and .prometheusUrl (not $.Values.metrics.prometheus.url) }}
- {{ printf "--prometheus-url=%s" .prometheusUrl | quote }}
{{- end }}
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
{{- if .Values.metrics.perAutoscaler }}
- --per-hpa-metrics
{{- end }}
{{- if .Values.metrics.tls.secretName }}
- --tls-cert-file=/etc/hpa/tls/tls.crt
- --tls-private-key-file=/etc/hpa/tls/tls.key
{{- end }}
{{- with .Values.metrics.prometheus }}
{{- if .url }}
- --metrics-config=/etc/hpa/rules/config.yaml
- {{ printf "--prometheus-url=%s" .url | quote }}
- {{ printf "--metrics-relist-interval=%s" .relistInterval | quote }}
- {{ printf "--share-queries=%s" .shareQueries | quote }}
{{- end }}
{{- end }}
{{- if .Values.debug.enabled }}
- {{ printf "--debug-port=%v" .Values.debug.port | quote }}
{{- with .Values.debug.memoryLimit }}
- {{ printf "--debug-memory-limit=%s" . | quote }}
{{- end }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
