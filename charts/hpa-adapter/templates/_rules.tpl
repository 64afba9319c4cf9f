{{/* The rules of the ClusterRole, by what is enabled. */}}
{{- define "hpa-adapter.clusterRules" -}}
{{- $rules := or .Values.rules.default .Values.rules.custom (and .Values.rules.existing (include "hpa-adapter.serves" (list . "custom"))) }}
{{- $resource := include "hpa-adapter.serves" (list . "resource") }}
{{- if or $rules $resource .Values.collectors.enabled }}
# The names, labels and addresses of the pods that metrics are for, from a watch.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end }}
{{- if $resource }}
# The nodes that metrics are for, from a watch.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
{{- if $rules }}
# The names of other objects that a request selects by label.
- apiGroups: [""]
  resources: [namespaces, services]
  verbs: [list]
{{- end }}
{{- range .Values.rbac.selectableResources }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [list]
{{- end }}
{{- if .Values.scalingSchedules.enabled }}
# The schedules that metrics describe.
- apiGroups: [zalando.org]
  resources: [scalingschedules, clusterscalingschedules]
  verbs: [list, watch]
# Writes whether a schedule is active.
- apiGroups: [zalando.org]
  resources: [scalingschedules/status, clusterscalingschedules/status]
  verbs: [patch]
{{- end }}
{{- with .Values.collectors }}
{{- if .enabled }}
# The autoscalers whose annotations ask for metrics.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
# Selector and replicas of their targets.
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale]
  verbs: [get]
- apiGroups: [argoproj.io]
  resources: [rollouts/scale]
  verbs: [get]
{{- if .skipperIngress }}
# Hosts and weights of backends, for requests per second of skipper.
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get]
{{- end }}
{{- if .skipperRouteGroup }}
- apiGroups: [zalando.org]
  resources: [routegroups]
  verbs: [get]
{{- end }}
# Events about annotations that can't be used.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end }}
{{- if include "hpa-adapter.makesCertificate" . }}
# Writes the authority of its serving certificate into its APIServices, and watches them.
- apiGroups: [apiregistration.k8s.io]
  resources: [apiservices]
  resourceNames:
    {{- include "hpa-adapter.apiServices" . | trim | nindent 4 }}
  verbs: [get, list, watch, patch]
{{- end }}
{{- end }}
