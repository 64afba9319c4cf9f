{{/* The value of the label app.kubernetes.io/name. */}}
{{- define "hpa-controller.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of the objects: the release name, plus the chart's name if the release name does not
     contain it. At most 52 characters, so that suffixes fit into 63. */}}
{{- define "hpa-controller.fullname" -}}
{{- $name := include "hpa-controller.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* The pods' selector labels. A Deployment's selector is immutable, so these must never change. */}}
{{- define "hpa-controller.selector" -}}
app.kubernetes.io/name: {{ include "hpa-controller.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "hpa-controller.labels" -}}
{{ include "hpa-controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "hpa-controller.serviceAccount" -}}
{{- $own := ternary (include "hpa-controller.fullname" .) "default" .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default $own }}
{{- end }}

{{- define "hpa-controller.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The name of the lease, and the prefix of the history ConfigMaps. */}}
{{- define "hpa-controller.lease" -}}
{{- .Values.leaderElection.resourceName | default (include "hpa-controller.fullname" .) }}
{{- end }}

{{/* The rules of files/clusterrole.yaml as text, comments included. With dryRun only the verbs that
     read, so that the controller cannot write. */}}
{{- define "hpa-controller.rules" -}}
{{- $files := list "files/clusterrole.yaml" }}
{{- if .Values.scalingSchedules.enabled }}{{ $files = append $files "files/role-schedules.yaml" }}{{ end }}
{{- with .Values.collectors }}
{{- if and .enabled .skipperIngress }}{{ $files = append $files "files/role-skipper-ingress.yaml" }}{{ end }}
{{- if and .enabled .skipperRouteGroup }}{{ $files = append $files "files/role-skipper-routegroup.yaml" }}{{ end }}
{{- end }}
{{- $reading := list }}
{{- $texts := list }}
{{- range $name := $files }}
{{- $file := $.Files.Get $name }}
{{- $texts = append $texts (include "hpa-controller.text" $file) }}
{{- range $rule := (fromYaml $file).rules }}
{{- with without $rule.verbs "create" "update" "patch" "delete" }}
{{- $reading = append $reading (merge (dict "verbs" .) $rule) }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.dryRun }}
{{- toYaml $reading | indent 2 }}
{{- else }}
{{- join "\n" $texts }}
{{- end }}
{{- range .Values.customScaleTargets }}
  - apiGroups: [{{ .group | quote }}]
    resources: [{{ .resource | quote }}]
    verbs: [get, list, watch]
{{- end }}
{{- end }}

{{/* The rules of a role under files/ as text, comments included. */}}
{{- define "hpa-controller.text" -}}
{{- regexReplaceAll "(?s)^.*?\nrules:\n" . "" | trimSuffix "\n" }}
{{- end }}

{{/* "true" if instances elect a leader. With dryRun nothing is written, so no leader is needed. */}}
{{- define "hpa-controller.elects" -}}
{{- if and .Values.leaderElection.enabled (not .Values.dryRun) }}true{{ end }}
{{- end }}

{{/* The subjects of every role binding. */}}
{{- define "hpa-controller.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "hpa-controller.serviceAccount" . | quote }}
    namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{- define "hpa-controller.scheme" -}}
{{- ternary "HTTPS" "HTTP" (not (empty .Values.metrics.tls.secretName)) }}
{{- end }}
