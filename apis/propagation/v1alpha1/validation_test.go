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
	"k8s.io/client-go/dynamic"

	"github.com/karmada-direct/karmada-direct/apis/client/clientset/versioned"
	"github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

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
	name: "no resource",
	yaml: "clusters: " + members,
	want: blocked("spec.resource: Required value"),
}, {
	name: "no apiVersion",
	yaml: spec("{kind: Deployment, name: web}", members),
	want: blocked("spec.resource.apiVersion: Required value"),
}, {
	name: "an empty apiVersion",
	yaml: spec("{apiVersion: '', kind: Deployment, name: web}", members),
	want: refused + `spec.resource.apiVersion: Invalid value: "": ` + notAnAPIVersion,
}, {
	name: "an apiVersion that ends in a slash",
	yaml: spec("{apiVersion: apps/, kind: Deployment, name: web}", members),
	want: refused + `spec.resource.apiVersion: Invalid value: "apps/": ` + notAnAPIVersion,
}, {
	name: "an apiVersion with capitals",
	yaml: spec("{apiVersion: Apps/v1, kind: Deployment, name: web}", members),
	want: refused + `spec.resource.apiVersion: Invalid value: "Apps/v1": ` + notAnAPIVersion,
}, {
	name: "an apiVersion with three parts",
	yaml: spec("{apiVersion: apps/v1/deployments, kind: Deployment, name: web}", members),
	want: refused + `spec.resource.apiVersion: Invalid value: "apps/v1/deployments": ` + notAnAPIVersion,
}, {
	name: "the longest apiVersion",
	yaml: spec("{apiVersion: "+strings.Repeat("g", 253)+"/"+strings.Repeat("v", 63)+", kind: Deployment, name: web}", members),
}, {
	name: "a longer apiVersion",
	yaml: spec("{apiVersion: "+strings.Repeat("g", 254)+"/"+strings.Repeat("v", 63)+", kind: Deployment, name: web}", members),
	want: blocked("spec.resource.apiVersion: Too long: may not be more than 317 bytes"),
}, {
	name: "no kind",
	yaml: spec("{apiVersion: apps/v1, name: web}", members),
	want: blocked("spec.resource.kind: Required value"),
}, {
	name: "an empty kind",
	yaml: spec("{apiVersion: apps/v1, kind: '', name: web}", members),
	want: refused + `spec.resource.kind: Invalid value: "": ` + notAKind,
}, {
	name: "a plural with its group for a kind",
	yaml: spec("{apiVersion: apps/v1, kind: deployments.apps, name: web}", members),
	want: refused + `spec.resource.kind: Invalid value: "deployments.apps": ` + notAKind,
}, {
	name: "the longest kind",
	yaml: spec("{apiVersion: apps/v1, kind: "+strings.Repeat("K", 63)+", name: web}", members),
}, {
	name: "a longer kind",
	yaml: spec("{apiVersion: apps/v1, kind: "+strings.Repeat("K", 64)+", name: web}", members),
	want: blocked("spec.resource.kind: Too long: may not be more than 63 bytes"),
}, {
	name: "no name",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment}", members),
	want: blocked("spec.resource.name: Required value"),
}, {
	name: "an empty name",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: ''}", members),
	want: refused + `spec.resource.name: Invalid value: "": ` + notAName,
}, {
	name: "a namespace in the name",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: shop/web}", members),
	want: refused + `spec.resource.name: Invalid value: "shop/web": ` + notAName,
}, {
	name: "a percent sign in the name",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: a%b}", members),
	want: refused + `spec.resource.name: Invalid value: "a%b": ` + notAName,
}, {
	name: "a name of one dot",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: .}", members),
	want: refused + `spec.resource.name: Invalid value: ".": ` + notAName,
}, {
	name: "a name of two dots",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: ..}", members),
	want: refused + `spec.resource.name: Invalid value: "..": ` + notAName,
}, {
	name: "the longest name",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: "+strings.Repeat("n", 253)+"}", members),
}, {
	name: "a longer name",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: "+strings.Repeat("n", 254)+"}", members),
	want: blocked("spec.resource.name: Too long: may not be more than 253 bytes"),
}, {
	name: "a namespace of its own",
	yaml: spec("{apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}", members),
	want: `DirectPropagation in version "v1alpha1" cannot be handled as a DirectPropagation: strict decoding error: unknown field "spec.resource.namespace"`,
}}

func TestClustersValidation(t *testing.T) {
	t.Parallel()
	checkSpecs(t, clustersCases)
}

var clustersCases = []answerCase{{
	name: "two clusters",
	yaml: spec(web, members),
}, {
	name: "no clusters",
	yaml: "resource: " + web,
	want: refused + "spec.clusters: Invalid value: must say which clusters get the resource, in clusters or by clusterSelector",
}, {
	name: "a selector instead of clusters",
	yaml: "resource: " + web + "\nclusterSelector: {matchLabels: {site: far}}",
}, {
	name: "negative replicas",
	yaml: spec(web, "[{name: member1, replicas: -1}]"),
	want: refused + "spec.clusters[0].replicas: Invalid value: -1: spec.clusters[0].replicas in body should be greater than or equal to 0",
}, {
	name: "an overrider that does what none can",
	yaml: spec(web, "[{name: member1, overriders: {plaintext: [{path: /spec, operator: move}]}}]"),
	want: blocked(`spec.clusters[0].overriders.plaintext[0].operator: Unsupported value: "move": supported values: "add", "remove", "replace"`),
}, {
	name: "an empty list",
	yaml: spec(web, "[]"),
	want: refused + "spec.clusters: Invalid value: must name at least one cluster; to withdraw the resource from all clusters, delete this object",
}, {
	name: "the same cluster twice",
	yaml: spec(web, "[{name: member1}, {name: member2}, {name: member1}]"),
	want: refused + `spec.clusters[2]: Duplicate value: {"name":"member1"}`,
}, {
	name: "5000 clusters",
	yaml: spec(web, clusterList(5000)),
}, {
	name: "5001 clusters",
	yaml: spec(web, clusterList(5001)),
	want: blocked("spec.clusters: Too many: 5001: must have at most 5000 items"),
}, {
	name: "a cluster without a name",
	yaml: spec(web, "[{}]"),
	want: blocked("spec.clusters[0].name: Required value"),
}, {
	name: "an empty cluster name",
	yaml: spec(web, "[{name: ''}]"),
	want: refused + `spec.clusters[0].name: Invalid value: "": ` + notAClusterName,
}, {
	name: "a cluster name with capitals",
	yaml: spec(web, "[{name: member1}, {name: Member2}]"),
	want: refused + `spec.clusters[1].name: Invalid value: "Member2": ` + notAClusterName,
}, {
	name: "a cluster name with dots",
	yaml: spec(web, "[{name: member1.example.com}]"),
	want: refused + `spec.clusters[0].name: Invalid value: "member1.example.com": ` + notAClusterName,
}, {
	name: "the longest cluster name",
	yaml: spec(web, "[{name: "+strings.Repeat("m", 48)+"}]"),
}, {
	name: "a longer cluster name",
	yaml: spec(web, "[{name: "+strings.Repeat("m", 49)+"}]"),
	want: blocked("spec.clusters[0].name: Too long: may not be more than 48 bytes"),
}, {
	name: "clusters as plain strings",
	yaml: spec(web, "[member1]"),
	want: blocked(`spec.clusters[0]: Invalid value: "string": spec.clusters[0] in body must be of type object: "string"`,
		`spec.clusters[0]: Invalid value: "member1": must be an object for an array of list-type map`),
}}

// TestOverridersThatGrant checks that overriders are only accepted for resources
// that users of a namespace may write anyway.
func TestOverridersThatGrant(t *testing.T) {
	t.Parallel()
	const (
		patched = "[{name: member1}, {name: member2, overriders: {plaintext: [{path: /roleRef/name, operator: replace, value: cluster-admin}]}}]"
		guarded = `spec.clusters: Invalid value: must not have overriders for a resource that grants permissions or limits what users of a namespace may do, which must be the same on every cluster; use a ClusterOverridePolicy`
	)
	cases := []answerCase{{
		name: "a workload", yaml: spec(web, patched),
	}, {
		name: "a ServiceAccount", yaml: spec("{apiVersion: v1, kind: ServiceAccount, name: web}", patched),
	}, {
		name: "a kind that is only named like one that limits", yaml: spec("{apiVersion: example.org/v1, kind: ResourceQuota, name: web}", patched),
	}, {
		name: "a RoleBinding without overriders", yaml: spec("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, name: web}", members),
	}, {
		name: "a RoleBinding on selected clusters", yaml: "resource: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, name: web}\nclusterSelector: {}",
	}}
	for _, resource := range []string{
		"rbac.authorization.k8s.io/v1, kind: RoleBinding", "rbac.authorization.k8s.io/v1beta1, kind: Role",
		"authorization.openshift.io/v1, kind: RoleBinding", "security.openshift.io/v1, kind: SecurityContextConstraints",
		"user.openshift.io/v1, kind: Group", "certificates.k8s.io/v1beta1, kind: ClusterTrustBundle",
		"admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration", "apiregistration.k8s.io/v1, kind: APIService",
		"apiextensions.k8s.io/v1, kind: CustomResourceDefinition",
		"v1, kind: Namespace", "v1, kind: ResourceQuota", "v1, kind: LimitRange",
	} {
		cases = append(cases, answerCase{name: resource, yaml: spec("{apiVersion: "+resource+", name: web}", patched), want: refused + guarded})
	}
	checkSpecs(t, cases)
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
	name: "another conflict resolution",
	yaml: spec(web, members, "conflictResolution: overwrite"),
	want: blocked(`spec.conflictResolution: Unsupported value: "overwrite": supported values: "Abort", "Overwrite"`),
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
	name: "suspend all clusters and one of them",
	yaml: spec(web, members, "suspension: {dispatching: true, dispatchingOnClusters: {clusterNames: [member1]}}"),
	want: refused + "spec.suspension: Invalid value: must have either dispatching: true, which suspends every cluster, or dispatchingOnClusters, which names some, and not both",
}, {
	name: "an empty suspension",
	yaml: spec(web, members, "suspension: {}"),
	want: refused + "spec.suspension: Invalid value: must say what is suspended, in dispatching or in dispatchingOnClusters, or be left out",
}, {
	name: "a suspension without cluster names",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {}}"),
	want: refused + "spec.suspension.dispatchingOnClusters: Invalid value: " + noCluster,
}, {
	name: "a suspension of an empty list of clusters",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: []}}"),
	want: refused + "spec.suspension.dispatchingOnClusters: Invalid value: " + noCluster,
}, {
	name: "a suspension of a cluster twice",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: [member1, member1]}}"),
	want: refused + `spec.suspension.dispatchingOnClusters.clusterNames[1]: Duplicate value: "member1"`,
}, {
	name: "a suspension of something that is not a cluster name",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: ['*']}}"),
	want: refused + `spec.suspension.dispatchingOnClusters.clusterNames[0]: Invalid value: "*": ` + notAClusterName,
}, {
	name: "a suspension of a cluster with too long a name",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: ["+strings.Repeat("m", 49)+"]}}"),
	want: blocked("spec.suspension.dispatchingOnClusters.clusterNames[0]: Too long: may not be more than 48 bytes"),
}, {
	name: "a suspension of 5000 clusters",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: ["+clusterNames(5000)+"]}}"),
}, {
	name: "a suspension of 5001 clusters",
	yaml: spec(web, members, "suspension: {dispatchingOnClusters: {clusterNames: ["+clusterNames(5001)+"]}}"),
	want: blocked("spec.suspension.dispatchingOnClusters.clusterNames: Too many: 5001: must have at most 5000 items"),
}, {
	name: "a field that does not exist",
	yaml: spec(web, members, "placement: {}"),
	want: `DirectPropagation in version "v1alpha1" cannot be handled as a DirectPropagation: strict decoding error: unknown field "spec.placement"`,
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
	const notAnAccount = "must be the name of a ServiceAccount: lower-case letters, digits, '-' and '.'"
	checkSpecs(t, []answerCase{{
		name: "a service account",
		yaml: spec(web, members, "serviceAccountName: deployer"),
	}, {
		name: "a service account with a dot, digits and a dash",
		yaml: spec(web, members, "serviceAccountName: 2nd-deployer.v1"),
	}, {
		name: "the longest name",
		yaml: spec(web, members, "serviceAccountName: "+strings.Repeat("a", 253)),
	}, {
		name: "a longer name",
		yaml: spec(web, members, "serviceAccountName: "+strings.Repeat("a", 254)),
		want: blocked("spec.serviceAccountName: Too long: may not be more than 253 bytes"),
	}, {
		name: "an empty name",
		yaml: spec(web, members, "serviceAccountName: ''"),
		want: refused + `spec.serviceAccountName: Invalid value: "": ` + notAnAccount,
	}, {
		name: "a user name",
		yaml: spec(web, members, "serviceAccountName: 'system:serviceaccount:other:admin'"),
		want: refused + `spec.serviceAccountName: Invalid value: "system:serviceaccount:other:admin": ` + notAnAccount,
	}, {
		name: "an account of another namespace",
		yaml: spec(web, members, "serviceAccountName: other/admin"),
		want: refused + `spec.serviceAccountName: Invalid value: "other/admin": ` + notAnAccount,
	}})
}

// TestClusterScopedHasNoServiceAccount checks that a ClusterDirectPropagation
// cannot name a ServiceAccount, because it has no namespace.
func TestClusterScopedHasNoServiceAccount(t *testing.T) {
	t.Parallel()
	clients, err := dynamic.NewForConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]string{
		"": "",
		"serviceAccountName: deployer": `ClusterDirectPropagation.propagation.karmada-direct.io "web" is invalid: spec.serviceAccountName: Invalid value: must not be set: ` +
			"a ClusterDirectPropagation has no namespace that the service account could be in, and always acts with the controller's permissions",
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": decode(t, spec(web, members, more))}}
		object.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
		object.SetKind("ClusterDirectPropagation")
		object.SetName("web")
		_, err := clients.Resource(v1alpha1.SchemeGroupVersion.WithResource("clusterdirectpropagations")).
			Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if diff := cmp.Diff(want, message(err)); diff != "" {
			t.Errorf("answer of the API server to %q (-want +got):\n%s", more, diff)
		}
	}
}
