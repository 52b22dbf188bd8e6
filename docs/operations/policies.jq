# Sorts PropagationPolicies by whether DirectPropagations can do what they do, and prints what
# policies.sh asks for. The input is a list of PropagationPolicies and ResourceBindings.

# Labels and annotations of Karmada, which a copy of a policy must not have.
def own: with_entries(select(.key | test("karmada\\.io/|kubectl\\.kubernetes\\.io/") | not));

def key: .metadata.namespace + "/" + .metadata.name;

# The policy that has claimed the resource of a binding.
def claimedBy: .metadata.annotations
  | (."propagationpolicy.karmada.io/namespace" // "") + "/" + (."propagationpolicy.karmada.io/name" // "");

def hasReplicas: (.spec.replicas // 0) > 0;

def isDivided: .spec.placement.replicaScheduling | . != null and (.replicaSchedulingType // "Divided") == "Divided";

# Why a DirectPropagation cannot do what a policy does.
def obstacles: [
  (.spec.resourceSelectors[]? | select((.name // "") == "") | "selects \(.kind)s by label or kind, also those that are created later"),
  (.spec.placement.clusterAffinities // empty | "has several groups of clusters (clusterAffinities)"),
  (.spec.placement.spreadConstraints // [] | select(length > 0) | "spreads over clusters (spreadConstraints)"),
  (.spec.placement.workloadAffinity // empty | "places workloads by other workloads (workloadAffinity)"),
  (.spec.failover // empty | "moves workloads to other clusters (failover)"),
  (.spec.activationPreference // "" | select(. != "") | "has activationPreference: \(.)"),
  (.spec.schedulerName // "default-scheduler" | select(. != "default-scheduler") | "has the scheduler \(.)"),
  (.spec.suspension // empty | "is suspended: resume it first")
];

# Why the bindings of a policy do not say what to propagate where.
def gaps($bindings; $divided): [
  (.spec.resourceSelectors[]? | select((.name // "") != "") | . as $selector
    | select(any($bindings[]; .spec.resource.kind == $selector.kind and .spec.resource.name == $selector.name) | not)
    | "has not claimed \(.kind) \(.name): it does not exist, or another policy has it"),
  (select(isDivided) | $bindings[] | select(hasReplicas)
    | if .spec.resource.kind == "Job" then "divides the completions of Job \(.spec.resource.name)"
      else select($divided | not) | "divides replicas: --divided fixes the number that each cluster has now" end)
];

# Why a binding cannot be moved now.
def waits: [
  (select(.metadata.deletionTimestamp) | "\(.metadata.name) is being deleted"),
  (select((.spec.clusters // []) | length == 0) | "\(.metadata.name) is not scheduled"),
  (select((.spec.gracefulEvictionTasks // []) | length > 0) | "\(.metadata.name) is being evicted from a cluster")
];

# What chooses clusters by a property, which names cannot follow.
def choosesClusters: .spec.placement.clusterAffinity // {}
  | (.clusterNames // [] | length == 0) or .labelSelector != null or .fieldSelector != null;

# Each policy with its bindings, and with what prevents the move.
def plan($divided):
  (map(select(.kind == "ResourceBinding")) | group_by(claimedBy) | map({key: (.[0] | claimedBy), value: .}) | from_entries) as $claimed
  | map(select(.kind == "PropagationPolicy"))
  | sort_by(key)
  | map(. as $policy | ($claimed[key] // []) as $bindings | {
      policy: $policy, bindings: $bindings,
      obstacles: ([$policy | obstacles[], gaps($bindings; $divided)[]] + [$bindings[] | waits[]] | unique)
    });

# The clusters of a binding. With $fixed, they keep the replicas that the scheduler gave them.
def targets($fixed): .spec.clusters | sort_by(.name)
  | map(if $fixed then {name, replicas: (.replicas // 0)} else {name} end);

def directPropagation($policy): {
  apiVersion: "propagation.karmada-direct.io/v1alpha1",
  kind: "DirectPropagation",
  metadata: {name: .metadata.name, namespace: .metadata.namespace},
  spec: ({
    resource: {apiVersion: .spec.resource.apiVersion, kind: .spec.resource.kind, name: .spec.resource.name},
    clusters: targets(hasReplicas and ($policy | isDivided)),
    conflictResolution: "Overwrite"
  } + if $policy.spec.propagateDeps then {propagateDeps: true} else {} end
    + if $policy.spec.preserveResourcesOnDeletion then {preserveResourcesOnDeletion: true} else {} end)
};

def list: {apiVersion: "v1", kind: "List", items: .};

def report: .[]
  | (.policy | key) as $name
  | if (.obstacles | length) > 0 then .obstacles[] | "no\t\($name)\t\(.)"
    else "yes\t\($name)\t" + ([.bindings[] | "\(.spec.resource.kind) \(.spec.resource.name) on \(.spec.clusters | length) clusters"] | join(", "))
      + if .policy | choosesClusters then "; names replace what chooses the clusters" else "" end
    end;

[.items[]] | plan($divided == "true")
| if $print == "report" then report
  else map(select(.obstacles == []))
  | if $print == "objects" then map(.policy as $policy | .bindings[] | directPropagation($policy)) | list
    elif $print == "policies" then
      map(.policy | del(.status) | .metadata |= ({name, namespace} + ({labels, annotations} | map_values(. // {} | own)))) | list
    elif $print == "preserve" then
      .[].policy | select(.spec.preserveResourcesOnDeletion != true) | "kubectl -n \(.metadata.namespace) patch propagationpolicy \(.metadata.name) --type merge -p '{\"spec\":{\"preserveResourcesOnDeletion\":true}}'"
    elif $print == "release" then .[]
      | "kubectl -n \(.policy.metadata.namespace) delete propagationpolicy \(.policy.metadata.name)",
        (.bindings[] | "kubectl -n \(.metadata.namespace) delete resourcebinding \(.metadata.name)")
    else error("unknown: \($print)") end
  end
