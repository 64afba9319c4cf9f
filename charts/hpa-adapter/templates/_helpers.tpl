{{/* The value of the label app.kubernetes.io/name. */}}
{{- define "hpa-adapter.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of the objects: the release name, plus the chart's name if the release name does not
     contain it. At most 52 characters, so that suffixes fit into 63. */}}
{{- define "hpa-adapter.fullname" -}}
{{- $name := include "hpa-adapter.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "hpa-adapter.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* The pods' selector labels. A Deployment's selector is immutable, so these must never change. */}}
{{- define "hpa-adapter.selector" -}}
app.kubernetes.io/name: {{ include "hpa-adapter.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "hpa-adapter.labels" -}}
{{ include "hpa-adapter.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata of an object. The argument is a list: the context, the suffix of the object's name,
     and its annotations or nil. */}}
{{- define "hpa-adapter.metadata" -}}
{{- $root := index . 0 }}
{{- $own := index . 2 | default dict -}}
name: {{ printf "%s%s" (include "hpa-adapter.fullname" $root) (index . 1) | quote }}
labels:
  {{- include "hpa-adapter.labels" $root | nindent 2 }}
{{- with merge (dict) $own $root.Values.customAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "hpa-adapter.serviceAccount" -}}
{{- $own := ternary (include "hpa-adapter.fullname" .) "default" .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default $own }}
{{- end }}

{{/* The subject of the adapter's own role bindings. */}}
{{- define "hpa-adapter.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "hpa-adapter.serviceAccount" . | quote }}
    namespace: {{ include "hpa-adapter.namespace" . | quote }}
{{- end }}

{{- define "hpa-adapter.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true" if rules, schedules or collectors have metrics of an API. The argument is a list: the
     context, and custom, external or resource. */}}
{{- define "hpa-adapter.hasRules" -}}
{{- $values := (index . 0).Values }}
{{- $rules := $values.rules }}
{{- $api := index . 1 }}
{{- $custom := and (eq $api "custom") (or $rules.default $values.scalingSchedules.enabled) }}
{{- $collected := and (has $api (list "custom" "external")) $values.collectors.enabled }}
{{- if or (index $rules $api) $custom $collected }}true{{ end }}
{{- end }}

{{/* "true" if one of the replicas writes: the status of schedules, or events. */}}
{{- define "hpa-adapter.elects" -}}
{{- if or .Values.scalingSchedules.enabled .Values.collectors.enabled }}true{{ end }}
{{- end }}

{{/* "true" if an API is served. The argument is a list: the context, and custom, external or
     resource. */}}
{{- define "hpa-adapter.serves" -}}
{{- $set := index (index . 0).Values.apiServices (index . 1) }}
{{- if kindIs "invalid" $set }}
{{- include "hpa-adapter.hasRules" . }}
{{- else if $set }}true
{{- end }}
{{- end }}

{{/* The rules file. */}}
{{- define "hpa-adapter.rules" -}}
{{- $rules := .Values.rules.custom }}
{{- if .Values.rules.default }}
{{- $rules = concat (.Files.Get "files/default-rules.yaml" | fromYaml).rules $rules }}
{{- end }}
{{- $file := dict }}
{{- with $rules }}{{ $_ := set $file "rules" . }}{{ end }}
{{- with .Values.rules.external }}{{ $_ := set $file "externalRules" . }}{{ end }}
{{- with .Values.rules.resource }}{{ $_ := set $file "resourceRules" . }}{{ end }}
{{- toYaml $file }}
{{- end }}

{{- define "hpa-adapter.prometheusUrl" -}}
{{- $port := ternary "" (printf ":%v" .Values.prometheus.port) (empty .Values.prometheus.port) }}
{{- printf "%s%s%s" (tpl .Values.prometheus.url .) $port .Values.prometheus.path }}
{{- end }}

{{/* The port of Prometheus' pods. */}}
{{- define "hpa-adapter.prometheusPort" -}}
{{- $standard := ternary 443 80 (hasPrefix "https:" (tpl .Values.prometheus.url .)) }}
{{- .Values.prometheus.port | default $standard }}
{{- end }}

{{/* The source of the serving certificate: values, cert-manager, arguments, or own (made by the
     adapter). */}}
{{- define "hpa-adapter.certificate" -}}
{{- if .Values.tls.enable }}values
{{- else if .Values.certManager.enabled }}cert-manager
{{- else if contains "--tls-cert-file" (join " " .Values.extraArguments) }}arguments
{{- else }}own
{{- end }}
{{- end }}

{{/* "true" if the adapter makes its serving certificate. */}}
{{- define "hpa-adapter.makesCertificate" -}}
{{- if eq (include "hpa-adapter.certificate" .) "own" }}true{{ end }}
{{- end }}

{{/* "true" if the pods mount a Secret with the serving certificate. */}}
{{- define "hpa-adapter.mountsCertificate" -}}
{{- if has (include "hpa-adapter.certificate" .) (list "values" "cert-manager") }}true{{ end }}
{{- end }}

{{/* The Secret with the serving certificate. */}}
{{- define "hpa-adapter.secret" -}}
{{- include "hpa-adapter.fullname" . }}-{{ ternary "serving" "tls" (eq (include "hpa-adapter.certificate" .) "own") }}
{{- end }}

{{/* The names of the APIServices, whether or not they are created. */}}
{{- define "hpa-adapter.apiServices" -}}
{{- if include "hpa-adapter.serves" (list . "custom") }}
- v1beta1.custom.metrics.k8s.io
- v1beta2.custom.metrics.k8s.io
{{- end }}
{{- if include "hpa-adapter.serves" (list . "external") }}
- v1beta1.external.metrics.k8s.io
{{- end }}
{{- if include "hpa-adapter.serves" (list . "resource") }}
- v1beta1.metrics.k8s.io
{{- end }}
{{- end }}
