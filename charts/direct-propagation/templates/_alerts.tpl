{{/* The alerts. Prometheus fills in what is in `{{"{{"}} … {{"}}"}}`. docs/operations/runbook.md
has a section for each alert. */}}
{{- define "dp.alerts" -}}
{{- $of := include "dp.metricsSelector" . -}}
- alert: KarmadaDirectNoLeader
  expr: {{ printf `sum(leader_election_master_status{name="karmada-direct",%[1]s}) < 1 or absent(leader_election_master_status{name="karmada-direct",%[1]s})` $of | quote }}
  for: 5m
  severity: critical
  summary: Karmada Direct has no leader
  description: Clusters keep what they run, but no change reaches them.
- alert: KarmadaDirectTrouble
  expr: {{ printf `sum by (kind, reason) (increase(karmada_direct_reconcile_errors_total{%[1]s}[10m])) > 0` $of | quote }}
  for: 15m
  severity: warning
  summary: "{{"{{ $labels.kind }}"}}: {{"{{ $labels.reason }}"}}"
  description: {{ printf "Reconciles of some objects of kind %s have ended with %s for 15 minutes." "{{ $labels.kind }}" "{{ $labels.reason }}" | quote }}
- alert: KarmadaDirectClusterFailed
  expr: {{ printf `sum by (kind) (karmada_direct_clusters{state="failed",%[1]s}) > 0` $of | quote }}
  for: 15m
  severity: warning
  summary: Clusters cannot get the current revision
  description: {{ printf "In %s rows of objects of kind %s, the cluster refuses the resource or may not get it." "{{ $value }}" "{{ $labels.kind }}" | quote }}
- alert: KarmadaDirectClusterUnreachable
  expr: {{ printf `sum by (kind) (karmada_direct_clusters{state="unreachable",%[1]s}) > 0` $of | quote }}
  for: 15m
  severity: warning
  summary: Karmada has lost contact with clusters
  description: {{ printf "In %s rows of objects of kind %s, it is unknown what the cluster runs." "{{ $value }}" "{{ $labels.kind }}" | quote }}
- alert: KarmadaDirectClusterPending
  expr: {{ printf `sum by (kind) (karmada_direct_clusters{state="pending",%[1]s}) > 0` $of | quote }}
  for: 1h
  severity: warning
  summary: Clusters do not answer
  description: {{ printf "In %s rows of objects of kind %s, a cluster has not confirmed what it was sent." "{{ $value }}" "{{ $labels.kind }}" | quote }}
- alert: KarmadaDirectSlowConfirmation
  expr: {{ printf `histogram_quantile(0.9, sum by (kind, le) (rate(karmada_direct_confirmation_seconds_bucket{%[1]s}[15m]))) > 60` $of | quote }}
  for: 30m
  severity: warning
  summary: Clusters confirm slowly
  description: {{ printf "One in ten confirmations of objects of kind %s takes longer than %s seconds." "{{ $labels.kind }}" "{{ $value }}" | quote }}
- alert: KarmadaDirectRolloutFailed
  expr: {{ printf `sum by (kind) (karmada_direct_rollouts{phase=~"Failed|RolledBack|StateLost",%[1]s}) > 0` $of | quote }}
  for: 5m
  severity: warning
  summary: Rollouts have failed
  description: {{ printf "The rollouts of %s objects of kind %s have failed, or were rolled back. Nothing more happens before somebody changes the resource or requests a retry." "{{ $value }}" "{{ $labels.kind }}" | quote }}
- alert: KarmadaDirectRolloutAwaitingApproval
  expr: {{ printf `sum by (kind) (karmada_direct_rollouts{phase="AwaitingApproval",%[1]s}) > 0` $of | quote }}
  for: 1d
  severity: warning
  summary: Rollouts have waited for an approval for a day
  description: {{ printf "The rollouts of %s objects of kind %s wait for somebody to approve a stage." "{{ $value }}" "{{ $labels.kind }}" | quote }}
{{- end }}
