//go:build integration

/*
Copyright The Karmada Direct Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/karmada-direct/karmada-direct/apis/client/clientset/versioned"
	"github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// What the API server must reject is in testdata/invalid, apart from lists that are too
// long to write out.

func TestResourceValidation(t *testing.T) {
	t.Parallel()
	checkSpecs(t, resourceCases)
}

var resourceCases = []answerCase{{
	name: "a namespaced resource of a group",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: web}", members),
}, {
	name: "a resource of the core group",
	yaml: spec("{apiVersion: v1, kind: ConfigMap, name: web}", members),
}, {
	name: "a custom resource with a long group and a name with dots and colons",
	yaml: spec("{apiVersion: my-group.sub.example.com/v1beta1, kind: Widget2, name: 'system:web.example.com'}", members),
}, {
	name: "the longest apiVersion",
	yaml: spec("{apiVersion: "+strings.Repeat("g", 253)+"/"+strings.Repeat("v", 63)+", kind: Deployment, name: web}", members),
}, {
	name: "the longest kind",
	yaml: spec("{apiVersion: apps/v1, kind: "+strings.Repeat("K", 63)+", name: web}", members),
}, {
	name: "the longest name",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: "+strings.Repeat("n", 253)+"}", members),
}}

func TestClustersValidation(t *testing.T) {
	t.Parallel()
	checkSpecs(t, clustersCases)
}

var clustersCases = []answerCase{{
	name: "two clusters",
	yaml: spec(web, members),
}, {
	name: "a selector instead of clusters",
	yaml: "resource: " + web + "\nclusterSelector: {matchLabels: {site: far}}",
}, {
	name: "a selector with every operator",
	yaml: "resource: " + web + "\nclusterSelector: {matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [c, d]}, {key: a, operator: Exists}, {key: e, operator: DoesNotExist, values: []}]}",
}, {
	name: "a selector without expressions",
	yaml: "resource: " + web + "\nclusterSelector: {matchExpressions: []}",
}, {
	name: "every toleration",
	yaml: "resource: " + web + "\nclusterSelector: {}\nclusterTolerations: [{operator: Exists}, {key: a, value: b}, {key: a, operator: Equal, value: \"\", effect: NoSchedule}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 30}]",
}, {
	name: "the most replicas",
	yaml: spec(web, "[{name: member1, replicas: 2147483647}]"),
}, {
	name: "5000 clusters",
	yaml: spec(web, clusterList(5000)),
}, {
	name: "5001 clusters",
	yaml: spec(web, clusterList(5001)),
	want: blocked("spec.clusters: Too many: 5001: must have at most 5000 items"),
}, {
	name: "the longest cluster name",
	yaml: spec(web, "[{name: "+strings.Repeat("m", 48)+"}]"),
}}

// TestOverridersThatGrantNothing checks that overriders are accepted for resources that
// users of a namespace may write anyway.
func TestOverridersThatGrantNothing(t *testing.T) {
	t.Parallel()
	const patched = "[{name: member1}, {name: member2, overriders: {plaintext: [{path: /roleRef/name, operator: replace, value: cluster-admin}]}}]"
	checkSpecs(t, []answerCase{{
		name: "a workload", yaml: spec(web, patched),
	}, {
		name: "a ServiceAccount", yaml: spec("{apiVersion: v1, kind: ServiceAccount, name: web}", patched),
	}, {
		name: "a kind that is only named like one that limits", yaml: spec("{apiVersion: example.org/v1, kind: ResourceQuota, name: web}", patched),
	}, {
		name: "a RoleBinding without overriders", yaml: spec("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, name: web}", members),
	}, {
		name: "a RoleBinding on selected clusters", yaml: "resource: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, name: web}\nclusterSelector: {}",
	}})
}

func TestPolicyValidation(t *testing.T) {
	t.Parallel()
	checkSpecs(t, policyCases)
}

var policyCases = []answerCase{{
	name: "leave existing objects alone",
	yaml: spec(web, members, "conflictResolution: Abort"),
}, {
	name: "take existing objects over",
	yaml: spec(web, members, "conflictResolution: Overwrite"),
}, {
	name: "preserve",
	yaml: spec(web, members, "preserveResourcesOnDeletion: true"),
}, {
	name: "suspend all clusters",
	yaml: spec(web, members, "suspension: {dispatching: true}"),
}, {
	name: "suspend one cluster",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: [member1]}}"),
}, {
	name: "suspend one cluster, and not all of them",
	yaml: spec(web, members, "suspension: {dispatching: false, dispatchingOnClusters: {clusterNames: [member1]}}"),
}, {
	name: "a suspension of 5000 clusters",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: ["+clusterNames(5000)+"]}}"),
}, {
	name: "a suspension of 5001 clusters",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: ["+clusterNames(5001)+"]}}"),
	want: blocked("spec.suspension.dispatchingOnClusters.clusterNames: Too many: 5001: must have at most 5000 items"),
}}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := create(t, "defaults", spec(web, members), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"spec": map[string]any{
			"resource":           map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"clusters":           []any{map[string]any{"name": "member1"}, map[string]any{"name": "member2"}},
			"conflictResolution": "Abort",
		},
		// A client that waits for generation == observedGeneration waits for the
		// controller from the beginning.
		"status": map[string]any{"observedGeneration": int64(-1)},
	}
	if diff := cmp.Diff(want, map[string]any{"spec": got.Object["spec"], "status": got.Object["status"]}); diff != "" {
		t.Errorf("object as stored (-want +got):\n%s", diff)
	}
}

// TestRolloutDefaults: an empty rollout shows what it means.
func TestRolloutDefaults(t *testing.T) {
	t.Parallel()
	got, err := create(t, "rollout-defaults", spec(web, members, "rollout: {stages: [{name: canary, clusterNames: [member1]}]}"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"stages":         []any{map[string]any{"name": "canary", "clusterNames": []any{"member1"}}},
		"maxConcurrency": "100%", "maxFailures": int64(0), "minReadySeconds": int64(10), "soakSeconds": int64(0),
		"progressDeadlineSeconds": int64(600), "onFailure": "Pause",
	}
	rollout, _, err := unstructured.NestedMap(got.Object, "spec", "rollout")
	if diff := cmp.Diff(want, rollout); diff != "" || err != nil {
		t.Errorf("rollout as stored (-want +got), %v:\n%s", err, diff)
	}
}

// TestGoTypesKeepTheirPromises sends the zero values of the Go types to the
// server: an optional field that is not set must not arrive as an empty one,
// which the rules reject.
func TestGoTypesKeepTheirPromises(t *testing.T) {
	t.Parallel()
	clients, err := versioned.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.PropagationV1alpha1().DirectPropagations("default").Create(t.Context(), &v1alpha1.DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec: v1alpha1.PropagationSpec{
			Resource: v1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap", Name: "web"},
			Clusters: []v1alpha1.TargetCluster{{Name: "member1"}},
		},
	}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	cleanUp(t, "typed")
}

func TestServiceAccountValidation(t *testing.T) {
	t.Parallel()
	checkSpecs(t, []answerCase{{
		name: "a service account",
		yaml: spec(web, members, "serviceAccountName: deployer"),
	}, {
		name: "a service account with a dot, digits and a dash",
		yaml: spec(web, members, "serviceAccountName: 2nd-deployer.v1"),
	}, {
		name: "the longest name",
		yaml: spec(web, members, "serviceAccountName: "+strings.Repeat("a", 253)),
	}})
}

// TestClusterScopedIsAccepted checks that a ClusterDirectPropagation may have the same
// spec, without a ServiceAccount.
func TestClusterScopedIsAccepted(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": decode(t, spec(web, members))}}
	object.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	object.SetKind("ClusterDirectPropagation")
	object.SetName("web")
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	if _, err := clientOf(t, object).Create(t.Context(), object, options); err != nil {
		t.Error(err)
	}
}
