{{- define "dp.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dp.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := include "dp.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "dp.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dp.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dp.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "dp.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: karmada-direct
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dp.image" -}}
{{- $image := .Values.image }}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end }}
{{- end }}

{{- define "dp.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "dp.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "dp.priorityClassName" -}}
{{- $class := .Values.priorityClass }}
{{- if and $class.create (not $class.name) }}
{{- include "dp.fullname" . }}
{{- else }}
{{- $class.name }}
{{- end }}
{{- end }}

{{/* The Secret that an installation of Karmada creates in its host cluster, and
the key in it: {name, key}, as JSON. */}}
{{- define "dp.kubeconfigSecret" -}}
{{- $karmada := .Values.karmada }}
{{- $presets := dict
  "karmadactl" (dict "name" "karmada-controller-manager-config" "key" "karmada.config")
  "helm" (dict "name" (printf "%s-kubeconfig" $karmada.name) "key" "kubeconfig")
  "operator" (dict "name" (printf "%s-admin-config" $karmada.name) "key" "karmada.config")
  "custom" (dict "name" "" "key" "kubeconfig") }}
{{- $preset := get $presets $karmada.preset }}
{{- $secret := $karmada.kubeconfigSecret }}
{{- dict "name" (default $preset.name $secret.name) "key" (default $preset.key $secret.key) | toJson }}
{{- end }}

{{/* Checks that the schema cannot express. */}}
{{- define "dp.validate" -}}
{{- include "dp.validateImage" . }}
{{- include "dp.validateMetrics" . }}
{{- if and (eq .Values.karmada.preset "custom") (not .Values.karmada.kubeconfigSecret.name) }}
{{- fail "karmada.preset is custom: say in karmada.kubeconfigSecret.name which Secret holds the kubeconfig of the Karmada API server" }}
{{- end }}
{{- if and .Values.guardrails.enabled (not .Values.rbac.leastPrivilege) (not .Values.guardrails.controllerUsers) }}
{{- fail "guardrails.enabled without rbac.leastPrivilege: list in guardrails.controllerUsers which user the kubeconfig of the Secret is, or the controller may not mark its own Works" }}
{{- end }}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.controller.leaderElection.enabled) }}
{{- fail (printf "replicaCount is %d: controller.leaderElection.enabled must be true, or every replica reconciles" (int .Values.replicaCount)) }}
{{- end }}
{{- if and (gt (float64 .Values.controller.kubeAPIQPS) 0.0) (lt (int .Values.controller.kubeAPIBurst) 1) }}
{{- fail "controller.kubeAPIQPS is above 0: controller.kubeAPIBurst must be at least 1" }}
{{- end }}
{{- if and (or .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled) (not .Values.metrics.enabled) }}
{{- fail "a ServiceMonitor or PodMonitor is enabled: metrics.enabled must be true" }}
{{- end }}
{{- end }}

{{/* The image must name its registry in a form that container runtimes recognize: a
first part with a dot or a port, or localhost. */}}
{{- define "dp.validateImage" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository: say which image to run. The default is karmada-direct/controller-manager, the name that `make image` gives it; see docs/install.md#image" }}
{{- end }}
{{- $first := include "dp.image" . | splitList "/" | first }}
{{- if not (and (contains "/" (include "dp.image" .)) (or (contains "." $first) (contains ":" $first) (eq $first "localhost"))) }}
{{- fail "image.registry: say which registry has the image. There is no default, because somebody else could register it. Set image.registry=localhost for an image that you load on every node, or push it and set the name of your registry; see docs/install.md#image" }}
{{- end }}
{{- end }}

{{- define "dp.validateMetrics" -}}
{{- if and .Values.metrics.secure.enabled .Values.metrics.podMonitor.enabled }}
{{- fail "metrics.secure.enabled with metrics.podMonitor.enabled: a PodMonitor sends no token of Prometheus; use metrics.serviceMonitor" }}
{{- end }}
{{- if and .Values.metrics.secure.enabled (not .Values.metrics.enabled) }}
{{- fail "metrics.secure.enabled: metrics.enabled must be true" }}
{{- end }}
{{- if and .Values.metrics.secure.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.hostAPIServerTo) }}
{{- fail "metrics.secure.enabled with networkPolicy.enabled: set networkPolicy.hostAPIServerTo to the address of the host cluster's API server, which authorizes the clients of the metrics endpoint" }}
{{- end }}
{{- end }}

{{/* Paths of the kubeconfigs in containers: that of the Secret, which has all
permissions, and the one that is created from it for the controller. */}}
{{- define "dp.adminKubeconfig" -}}
/etc/karmada/kubeconfig
{{- end }}
{{- define "dp.ownKubeconfig" -}}
/run/karmada-direct/kubeconfig
{{- end }}

{{- define "dp.adminVolume" -}}
{{- $secret := include "dp.kubeconfigSecret" . | fromJson -}}
name: karmada
secret:
  secretName: {{ $secret.name }}
  defaultMode: 0440
  items:
  - key: {{ $secret.key }}
    path: kubeconfig
{{- end }}

{{/* A folder instead of a subPath, which would never show an updated Secret. */}}
{{- define "dp.adminMount" -}}
name: karmada
mountPath: /etc/karmada
readOnly: true
{{- end }}

{{- define "dp.ownMount" -}}
name: own-kubeconfig
mountPath: /run/karmada-direct
{{- end }}

{{/* A container that runs one command against the Karmada API server and exits. */}}
{{- define "dp.installContainer" -}}
{{- $root := .root -}}
name: {{ .command }}
image: {{ include "dp.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
args:
- {{ .command }}
- --kubeconfig={{ include "dp.adminKubeconfig" $root }}
{{- if ne .command "install-crds" }}
- --namespace={{ $root.Values.karmada.namespace }}
{{- end }}
{{- if eq .command "install-rbac" }}
{{- with $root.Values.rbac.propagated }}
- --propagated={{ join "," . }}
{{- end }}
- --aggregate-status={{ $root.Values.rbac.aggregateStatus }}
{{- end }}
{{- if eq .command "install-guardrails" }}
{{- with $root.Values.guardrails.controllerUsers }}
- --controller-users={{ join "," . }}
{{- end }}
{{- end }}
{{- if eq .command "write-kubeconfig" }}
- --output={{ include "dp.ownKubeconfig" $root }}
- --token-lifetime={{ $root.Values.rbac.tokenLifetime }}
{{- end }}
{{- with $root.Values.controller.extraEnv }}
env:
{{- toYaml . | nindent 0 }}
{{- end }}
resources:
  {{- toYaml $root.Values.installResources | nindent 2 }}
securityContext:
  {{- toYaml $root.Values.securityContext | nindent 2 }}
volumeMounts:
- {{ include "dp.adminMount" $root | nindent 2 | trim }}
{{- if eq .command "write-kubeconfig" }}
- {{ include "dp.ownMount" $root | nindent 2 | trim }}
{{- end }}
{{- end }}

{{/* The commands that a Job or init containers run in sequence: [command, …], as
JSON. */}}
{{- define "dp.installCommands" -}}
{{- $commands := list }}
{{- if eq .root.Values.crds.install .by }}{{ $commands = append $commands "install-crds" }}{{ end }}
{{- if eq .root.Values.rbac.install .by }}{{ $commands = append $commands "install-rbac" }}{{ end }}
{{- if and .root.Values.guardrails.enabled (eq .root.Values.rbac.install .by) }}{{ $commands = append $commands "install-guardrails" }}{{ end }}
{{- if and (eq .by "initContainer") .root.Values.rbac.leastPrivilege }}{{ $commands = append $commands "write-kubeconfig" }}{{ end }}
{{- toJson $commands }}
{{- end }}

{{/* Selects the metrics of this release. */}}
{{- define "dp.metricsSelector" -}}
namespace="{{ .Release.Namespace }}",pod=~"{{ include "dp.fullname" . }}-[a-z0-9]+-[a-z0-9]+"
{{- end }}

{{- define "dp.monitorEndpoint" -}}
port: metrics
{{- with .interval }}
interval: {{ . }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Network settings with which the Pods reach the Karmada API server. */}}
{{- define "dp.network" -}}
hostNetwork: {{ .Values.hostNetwork }}
dnsPolicy: {{ default (ternary "ClusterFirstWithHostNet" "ClusterFirst" .Values.hostNetwork) .Values.dnsPolicy }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Settings that a ServiceMonitor needs with metrics.secure. */}}
{{- define "dp.secureEndpoint" -}}
scheme: https
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
tlsConfig:
{{- with .Values.metrics.secure.certSecret }}
  ca:
    secret:
      name: {{ . }}
      key: {{ "ca.crt" }}
  serverName: {{ include "dp.fullname" $ }}-metrics.{{ $.Release.Namespace }}.svc
{{- else }}
  insecureSkipVerify: true
{{- end }}
{{- end }}
