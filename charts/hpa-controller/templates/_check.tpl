{{/* Checks that a JSON schema can't express. Without them, the pods would exit with status 2. */}}
{{- define "hpa-controller.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) (not .Values.dryRun) }}
{{- fail "leaderElection.enabled=false needs replicas=1: two instances would overwrite each other's decisions" }}
{{- end }}
{{- if and .Values.client.burst (not .Values.client.qps) }}
{{- fail "client.burst needs client.qps" }}
{{- end }}
{{- if and .Values.debug.enabled (eq (int .Values.debug.port) (int .Values.metrics.port)) }}
{{- fail "debug.port must not be metrics.port" }}
{{- end }}
{{- if and .Values.collectors.enabled .Values.namespaces }}
{{- fail "collectors.enabled=true reads autoscalers and pods of all namespaces: leave out namespaces" }}
{{- end }}
{{- with .Values.collectors }}
{{- /* Without a URL, `hpa run` only warns that these flags have no effect. */}}
{{- $extra := toJson (list $.Values.extraArgs $.Values.extraEnv) }}
{{- $url := or .prometheusUrl $.Values.metrics.prometheus.url (regexMatch "--prometheus-url|HPA_PROMETHEUS_URL" $extra) }}
{{- if and .enabled (or .skipperIngress .skipperRouteGroup .externalRps) (not $url) }}
{{- fail "collectors.skipperIngress, skipperRouteGroup and externalRps need collectors.prometheusUrl" }}
{{- end }}
{{- end }}
{{- with .Values.metrics.prometheus }}
{{- if and .rules.resource (not (and .rules.resource.cpu .rules.resource.memory)) }}
{{- fail "metrics.prometheus.rules.resource needs both cpu and memory" }}
{{- end }}
{{- $own := or .rules.custom .rules.external .rules.resource }}
{{- if and .url (not (or $own .rules.existing)) }}
{{- fail "metrics.prometheus.url needs metrics.prometheus.rules" }}
{{- end }}
{{- if and (or $own .rules.existing) (not .url) }}
{{- fail "metrics.prometheus.rules needs metrics.prometheus.url" }}
{{- end }}
{{- if and $own .rules.existing }}
{{- fail "metrics.prometheus.rules.existing replaces the other rules: set only one of them" }}
{{- end }}
{{- end }}
{{- include "hpa-controller.checkRanges" . }}
{{- include "hpa-controller.checkElection" .Values.leaderElection }}
{{- include "hpa-controller.checkShutdown" .Values }}
{{- end }}

{{/* A duration in nanoseconds. */}}
{{- define "hpa-controller.nanoseconds" -}}
{{- $start := toDate "2006-01-02T15:04:05Z07:00" "2000-01-01T00:00:00Z" }}
{{- sub (mustDateModify . $start).UnixNano $start.UnixNano }}
{{- end }}

{{/* The bounds of `hpa run` for durations. */}}
{{- define "hpa-controller.checkRanges" -}}
{{- $positive := dict
  "autoscaling.syncPeriod" .Values.autoscaling.syncPeriod
  "autoscaling.minSyncPeriod" .Values.autoscaling.minSyncPeriod
  "metrics.prometheus.relistInterval" .Values.metrics.prometheus.relistInterval
  "client.requestTimeout" .Values.client.requestTimeout
  "leaderElection.leaseDuration" .Values.leaderElection.leaseDuration
  "leaderElection.renewDeadline" .Values.leaderElection.renewDeadline
  "leaderElection.retryPeriod" .Values.leaderElection.retryPeriod
}}
{{- range $name, $duration := $positive }}
{{- if and $duration (lt (include "hpa-controller.nanoseconds" $duration | int64) 10000000) }}
{{- fail (printf "%s=%s must be at least 10ms" $name $duration) }}
{{- end }}
{{- end }}
{{- $all := merge (dict
  "autoscaling.downscaleStabilization" .Values.autoscaling.downscaleStabilization
  "autoscaling.cpuInitializationPeriod" .Values.autoscaling.cpuInitializationPeriod
  "autoscaling.initialReadinessDelay" .Values.autoscaling.initialReadinessDelay
  "shutdownGracePeriod" .Values.shutdownGracePeriod
  "statusInterval" .Values.statusInterval
) $positive }}
{{- $year := include "hpa-controller.nanoseconds" "8760h" | int64 }}
{{- range $name, $duration := $all }}
{{- if and $duration (gt (include "hpa-controller.nanoseconds" $duration | int64) $year) }}
{{- fail (printf "%s=%s must be at most 8760h (a year)" $name $duration) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The relations between the durations of leader election that kube-controller-manager requires. */}}
{{- define "hpa-controller.checkElection" -}}
{{- $lease := .leaseDuration | default "15s" }}
{{- $renew := .renewDeadline | default "10s" }}
{{- $retry := .retryPeriod | default "2s" }}
{{- $leaseTime := include "hpa-controller.nanoseconds" $lease | int64 }}
{{- $renewTime := include "hpa-controller.nanoseconds" $renew | int64 }}
{{- $retryTime := include "hpa-controller.nanoseconds" $retry | int64 }}
{{- if le $leaseTime $renewTime }}
{{- fail (printf "leaderElection.leaseDuration=%s must be greater than leaderElection.renewDeadline=%s" $lease $renew) }}
{{- end }}
{{- if le $renewTime (div (mul $retryTime 6) 5) }}
{{- fail (printf "leaderElection.renewDeadline=%s must be greater than 1.2 times leaderElection.retryPeriod=%s" $renew $retry) }}
{{- end }}
{{- end }}

{{/* The kubelet kills a pod that is still running when its termination grace period ends. */}}
{{- define "hpa-controller.checkShutdown" -}}
{{- $grace := .shutdownGracePeriod | default "10s" }}
{{- $termination := mul .terminationGracePeriodSeconds 1000000000 }}
{{- if ge (include "hpa-controller.nanoseconds" $grace | int64) $termination }}
{{- fail (printf "shutdownGracePeriod=%s must be less than terminationGracePeriodSeconds=%v" $grace .terminationGracePeriodSeconds) }}
{{- end }}
{{- end }}
