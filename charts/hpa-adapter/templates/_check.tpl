{{/* Checks that a JSON schema can't express. */}}
{{- define "hpa-adapter.check" -}}
{{- if contains "prometheus-adapter" .Values.image.repository }}
{{- fail (printf "image.repository=%s is prometheus-adapter: set the repository of your hpa image" .Values.image.repository) }}
{{- end }}
{{- $url := tpl .Values.prometheus.url . }}
{{- if and .Values.prometheus.port (regexMatch "^https?://[^/]*:[0-9]+(/|$)" $url) }}
{{- fail (printf "prometheus.url=%s has a port, and prometheus.port is %v: write the port into prometheus.port only" $url .Values.prometheus.port) }}
{{- end }}
{{- if eq (int .Values.listenPort) (int .Values.healthPort) }}
{{- fail "healthPort must not be listenPort" }}
{{- end }}
{{- if and .Values.tls.enable .Values.certManager.enabled }}
{{- fail "tls.enable and certManager.enabled exclude each other" }}
{{- end }}
{{- if and (eq (include "hpa-adapter.certificate" .) "arguments") (not (contains "-----BEGIN " .Values.tls.ca)) }}
{{- fail "extraArguments has --tls-cert-file, so tls.ca must have its authority in PEM" }}
{{- end }}
{{- if .Values.tls.enable }}
{{- range $name := list "ca" "key" "certificate" }}
{{- if not (contains "-----BEGIN " (index $.Values.tls $name)) }}
{{- fail (printf "tls.enable=true needs PEM in tls.%s" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- $apis := list }}
{{- range $api := list "custom" "external" "resource" }}
{{- if include "hpa-adapter.serves" (list $ $api) }}
{{- $apis = append $apis $api }}
{{- if not (or $.Values.rules.existing (include "hpa-adapter.hasRules" (list $ $api))) }}
{{- fail (printf "apiServices.%s=true needs rules in rules.%s" $api $api) }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $apis }}
{{- fail "no API is served: set rules.default, rules.custom, rules.external or rules.resource, or with rules.existing apiServices.custom, apiServices.external or apiServices.resource" }}
{{- end }}
{{- end }}
