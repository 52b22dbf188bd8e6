//go:build e2e

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

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// The API server rejects these mistakes with a helpful message.
func TestMistakesThatAreRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.Reference("v1", "ConfigMap", "settings")
	cases := []struct {
		name   string
		object *DirectPropagation
		want   string
	}{
		{
			"no clusters", testbed.NewDirectPropagation(ns.Name, "web", settings),
			`DirectPropagation.propagation.karmada-direct.io "web" is invalid: spec.clusters: Invalid value: must say which clusters get the resource, in clusters or by clusterSelector`,
		}, {
			"the same cluster twice", testbed.NewDirectPropagation(ns.Name, "web", settings, "member1", "member2", "member1"),
			`DirectPropagation.propagation.karmada-direct.io "web" is invalid: spec.clusters[2]: Duplicate value: {"name":"member1"}`,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			err := karmada.Create(ns.Ctx, tc.object)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("not refused as invalid: %v", err)
			}
			if refusal(err) != tc.want {
				t.Errorf("refused with\n  %s\nwant\n  %s", err, tc.want)
			}
		})
	}
}

// refusal returns the words with which the API server refuses an object. Before
// Kubernetes 1.35, they name the type of a value that breaks a rule.
func refusal(err error) string {
	return strings.NewReplacer(`Invalid value: "object": `, "Invalid value: ", `Invalid value: "array": `, "Invalid value: ").Replace(err.Error())
}

// mistake is a mistake that only the controller can detect.
type mistake struct {
	name     string
	resource propagationv1alpha1.ResourceReference
	reason   string
	message  string
}

var mistakes = []mistake{
	{
		"an unknown kind", testbed.Reference("apps/v1", "Deploiment", "web"), propagationv1alpha1.ReasonResourceKindNotFound,
		`spec.resource: the Karmada API server does not serve kind "Deploiment" in "apps/v1"; check the spelling, name a version that is served, or install its CustomResourceDefinition there`,
	}, {
		"an unknown group", testbed.Reference("example.org/v1", "Web", "web"), propagationv1alpha1.ReasonResourceKindNotFound,
		`spec.resource: the Karmada API server does not serve kind "Web" in "example.org/v1"; check the spelling, name a version that is served, or install its CustomResourceDefinition there`,
	}, {
		"an unknown version", testbed.Reference("apps/v2", "Deployment", "web"), propagationv1alpha1.ReasonResourceKindNotFound,
		`spec.resource: the Karmada API server does not serve kind "Deployment" in "apps/v2"; check the spelling, name a version that is served, or install its CustomResourceDefinition there`,
	}, {
		"a cluster-scoped kind", testbed.Reference("v1", "Namespace", "web"), propagationv1alpha1.ReasonResourceScopeMismatch,
		"spec.resource: v1 Namespace is cluster-scoped; use a ClusterDirectPropagation for it, a DirectPropagation propagates a resource of its own namespace",
	}, {
		"an Event", testbed.Reference("v1", "Event", "web"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: Event web must not be propagated: this kind only has a meaning in the control plane that it was made in",
	}, {
		"an Event of the other group", testbed.Reference("events.k8s.io/v1", "Event", "web"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: Event web must not be propagated: this kind only has a meaning in the control plane that it was made in",
	}, {
		"a Lease", testbed.Reference("coordination.k8s.io/v1", "Lease", "web"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: Lease web must not be propagated: this kind only has a meaning in the control plane that it was made in",
	}, {
		"a service account token", testbed.Reference("v1", "Secret", "token"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: Secret token must not be propagated: a service account token is only valid in the cluster that issued it",
	}, {
		"the root certificate", testbed.Reference("v1", "ConfigMap", "kube-root-ca.crt"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: ConfigMap kube-root-ca.crt must not be propagated: every cluster publishes its own",
	}, {
		"a Pod of a controller", testbed.Reference("v1", "Pod", "owned"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: Pod owned must not be propagated: it belongs to a controller; propagate that controller's object instead",
	}, {
		"a policy of Karmada", testbed.Reference("policy.karmada.io/v1alpha1", "PropagationPolicy", "web"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: PropagationPolicy web must not be propagated: this kind only has a meaning in the control plane that it was made in",
	}, {
		"a Work", testbed.Reference("work.karmada.io/v1alpha1", "Work", "web"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: Work web must not be propagated: this kind only has a meaning in the control plane that it was made in",
	}, {
		"a DirectPropagation", testbed.Reference("propagation.karmada-direct.io/v1alpha1", "DirectPropagation", "web"), propagationv1alpha1.ReasonResourceNotPropagatable,
		"spec.resource: DirectPropagation web must not be propagated: this kind only has a meaning in the control plane that it was made in",
	},
}

// The controller reports the mistakes that only it can detect: Stalled is True with
// a helpful message. It writes nothing to any cluster. After a fix, the object
// becomes Ready.
func TestMistakesThatAreExplained(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	good := testbed.ConfigMap("good", "nothing wrong with it")
	ns.Has(good)
	ns.hasWhatMustNotTravel()
	for _, mistake := range mistakes {
		t.Run(mistake.name, func(t *testing.T) {
			t.Parallel()
			ns := ns.in(t)
			name := strings.ReplaceAll(strings.ToLower(mistake.name), " ", "-")
			p := ns.PropagatesReference(name, mistake.resource).To(member1, member2)
			object := p.Says(mistake.reason, mistake.message)
			isStalled(t, object, mistake.reason, mistake.message)
			if written := bed.Audit.Since(time.Time{}, func(c testbed.Write) bool {
				return c.Resource == "works" && strings.HasPrefix(c.Name, mistake.resource.Name+"-") && ns.IsOurs(c)
			}); len(written) > 0 {
				t.Errorf("Works were written:\n%s", testbed.Listing(written))
			}
			mended := testbed.ConfigMap(name, "mended")
			ns.Has(mended)
			p.Changes(func(object *DirectPropagation) { object.Spec.Resource = testbed.ReferenceTo(mended) })
			object = p.BecomesReady()
			if condition := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionStalled); condition != nil {
				t.Errorf("still Stalled: %+v", condition)
			}
		})
	}
}

// hasWhatMustNotTravel creates objects that must not be propagated although their
// kind may be. kube-root-ca.crt may already exist.
func (ns *Namespace) hasWhatMustNotTravel() {
	ns.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "somebody"}}
	ns.Has(account)
	ns.Has(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	root := testbed.ConfigMap("kube-root-ca.crt", "a certificate")
	root.Namespace = ns.Name
	if err := karmada.Create(ns.Ctx, root); client.IgnoreAlreadyExists(err) != nil {
		ns.T.Fatal(err)
	}
	ns.Has(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(account, corev1.SchemeGroupVersion.WithKind("ServiceAccount"))}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	})
}

func isStalled(t *testing.T, object *DirectPropagation, reason, message string) {
	t.Helper()
	stalled := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != reason || stalled.Message != message {
		t.Errorf("Stalled is %s", testbed.Say(stalled))
	}
	if condition := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReconciling); condition != nil {
		t.Errorf("Stalled is True, but Reconciling is %s", testbed.Say(condition))
	}
}

// A cluster that is not registered has a row that says so, and the others get the
// resource. Removing the cluster from the list fixes the problem.
func TestUnregisteredCluster(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings := testbed.ConfigMap("settings", "for those who are there")
	ns.Has(settings)
	p := ns.Propagates("settings", settings).ToClusters("member1", "nobody", "member2")
	message := "no Cluster nobody is registered with Karmada; register it, or take it off spec.clusters"
	p.RowSays("nobody", metav1.ConditionFalse, propagationv1alpha1.ReasonClusterNotFound, message)
	for _, member := range members {
		p.RowSays(member.Name, metav1.ConditionTrue, propagationv1alpha1.ReasonApplied, "")
	}
	object := p.Says(propagationv1alpha1.ReasonClusterNotFound, "2 of 3 clusters ready; nobody: "+message)
	ns.NowRun(settings, members...)
	if got, want := object.Status.Summary.Progress, "2/3"; got != want {
		t.Errorf("progress %s, want %s", got, want)
	}
	if object.Status.Clusters[0].Name != "nobody" {
		t.Errorf("the worst row is not the first: %+v", object.Status.Clusters)
	}
	p.MovesTo(member1, member2)
	p.BecomesReady()
}

// Resources in namespaces of Karmada and Kubernetes are not propagated.
func TestReservedNamespaces(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"karmada-system", "karmada-cluster", "karmada-es-member1", "kube-system", "kube-public"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := testbed.NewDirectPropagation(name, "e2e-"+rand.String(5), testbed.Reference("v1", "ConfigMap", "settings"), "member1")
			if err := karmada.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := karmada.Delete(context.Background(), object); err != nil {
					t.Error(err)
				}
				err := bed.Await(context.Background(), "it is gone", func(ctx context.Context) error {
					if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
						return fmt.Errorf("it still exists: %v", err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			message := fmt.Sprintf("namespace %s is reserved for Karmada or Kubernetes and is not propagated; use another namespace", name)
			err := bed.Await(t.Context(), "it is refused", func(ctx context.Context) error {
				if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
					return err
				}
				ready := meta.FindStatusCondition(object.Status.Conditions, propagationv1alpha1.ConditionReady)
				if ready == nil || ready.Reason != propagationv1alpha1.ReasonNamespaceReserved || ready.Message != message {
					return fmt.Errorf("Ready is %s", testbed.Say(ready))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			isStalled(t, object, propagationv1alpha1.ReasonNamespaceReserved, message)
		})
	}
}
