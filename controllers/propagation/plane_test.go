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

package propagation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/apis"
	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// plane is a real API server with a cluster member1. The test plays the part of
// Karmada, and the controller runs with the permissions of its role.
type plane struct {
	client.Client
	t      *testing.T
	config *rest.Config
	// onConfirm, if not nil, is called with each Work that was confirmed.
	onConfirm func(*workv1alpha1.Work)
}

// controllerRole names the role with the controller's permissions for what it
// propagates.
const controllerRole = "propagated"

func newPlane(t *testing.T) *plane {
	t.Helper()
	return newPlaneBehind(t, func(*plane, *rest.Config) {})
}

// newPlaneBehind is newPlane with a function that may change the plane and the
// configuration of the controller before it starts.
func newPlaneBehind(t *testing.T, change func(*plane, *rest.Config)) *plane {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS must name the directory with kube-apiserver and etcd: run make test-integration, which builds them")
	}
	ctrl.SetLogger(logr.Discard())
	crds, err := apis.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	crds = append(crds, karmadaKinds()...)
	environment := &envtest.Environment{CRDs: crds}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("starting an API server: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := &plane{t: t, config: config}
	if p.Client, err = client.New(config, client.Options{Scheme: integrationScheme(t)}); err != nil {
		t.Fatal(err)
	}
	p.furnish()
	user, err := environment.AddUser(envtest.User{Name: "controller"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config = user.Config()
	change(p, config)
	p.runController(config)
	return p
}

// karmadaKinds are the kinds of Karmada that the controller reads or writes.
func karmadaKinds() (crds []*apiextensionsv1.CustomResourceDefinition) {
	for _, karmada := range []struct {
		version schema.GroupVersion
		kind    string
		scope   apiextensionsv1.ResourceScope
	}{
		{schema.GroupVersion(workv1alpha1.GroupVersion), "Work", apiextensionsv1.NamespaceScoped},
		{schema.GroupVersion(clusterv1alpha1.GroupVersion), "Cluster", apiextensionsv1.ClusterScoped},
		{schema.GroupVersion(policyv1alpha1.GroupVersion), "OverridePolicy", apiextensionsv1.NamespaceScoped},
		{schema.GroupVersion(policyv1alpha1.GroupVersion), "ClusterOverridePolicy", apiextensionsv1.ClusterScoped},
		{schema.GroupVersion(configv1alpha1.GroupVersion), "ResourceInterpreterCustomization", apiextensionsv1.ClusterScoped},
		{schema.GroupVersion(configv1alpha1.GroupVersion), "ResourceInterpreterWebhookConfiguration", apiextensionsv1.ClusterScoped},
	} {
		crds = append(crds, crdOf(karmada.version, karmada.kind, karmada.scope))
	}
	return crds
}

func integrationScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1alpha1.Install, policyv1alpha1.Install, configv1alpha1.Install,
		workv1alpha1.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// crdOf returns the definition of a kind with a status and without validation
// rules.
func crdOf(version schema.GroupVersion, kind string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	if before, ends := strings.CutSuffix(strings.ToLower(kind), "y"); ends {
		plural = before + "ies"
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + version.Group, Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: version.Group, Scope: scope,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{servedVersionOf(version.Version, true)},
		},
	}
}

func servedVersionOf(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true, Storage: storage,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: ptr.To(true),
		}},
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	}
}

// furnish creates the namespaces, the cluster, and the roles of the controller.
func (p *plane) furnish() {
	p.t.Helper()
	for _, name := range []string{"shop", "karmada-es-member1"} {
		p.has(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}
	p.has(cluster)
	cluster.Status.Conditions = []metav1.Condition{{
		Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionTrue, Reason: "ClusterReady", LastTransitionTime: metav1.Now(),
	}}
	if err := p.Status().Update(p.t.Context(), cluster); err != nil {
		p.t.Fatal(err)
	}
	all := []string{"*"}
	p.has(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "controller"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"work.karmada.io", "propagation.karmada-direct.io"}, Resources: all, Verbs: all},
		{APIGroups: []string{"cluster.karmada.io", "policy.karmada.io", "config.karmada.io", "apiextensions.k8s.io"}, Resources: all, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}})
	p.has(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: controllerRole}})
	for _, role := range []string{"controller", controllerRole} {
		p.has(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "controller"}},
		})
	}
}

func (p *plane) runController(user *rest.Config) {
	p.t.Helper()
	cacheOptions, err := CacheOptions()
	if err != nil {
		p.t.Fatal(err)
	}
	user.QPS = -1
	mgr, err := ctrl.NewManager(user, ctrl.Options{
		Scheme: integrationScheme(p.t), Cache: cacheOptions, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	if err := SetupWithManager(ctx, mgr, Options{Concurrency: 4, Writers: 8}); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	go p.playKarmada(ctx)
	p.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("the manager ended with %v", err)
		}
	})
}

// playKarmada confirms every Work, as if a member ran it.
func (p *plane) playKarmada(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		works := &workv1alpha1.WorkList{}
		if err := p.List(ctx, works); err != nil {
			return false, nil
		}
		for i := range works.Items {
			p.confirm(ctx, &works.Items[i])
		}
		return false, nil
	})
}

func (p *plane) confirm(ctx context.Context, work *workv1alpha1.Work) {
	if meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied) != nil {
		return
	}
	for _, condition := range []string{workv1alpha1.WorkDispatching, workv1alpha1.WorkApplied} {
		work.Status.Conditions = append(work.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.Now(),
		})
	}
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: workv1alpha1.ResourceHealthy}}
	// After a conflict, the next poll tries again.
	if err := p.Status().Update(ctx, work); err == nil && p.onConfirm != nil {
		p.onConfirm(work)
	}
}

// has creates an object.
func (p *plane) has(object client.Object) {
	p.t.Helper()
	if err := p.Create(p.t.Context(), object); err != nil {
		p.t.Fatal(err)
	}
}

// mayPropagate replaces what the controller may do with the resources of a group. It
// returns when the API server decides by that.
func (p *plane) mayPropagate(group, resource string, verbs ...string) {
	p.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: controllerRole}}
	if len(verbs) > 0 {
		role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}}
	}
	if err := p.Update(p.t.Context(), role); err != nil {
		p.t.Fatal(err)
	}
	for _, verb := range readingVerbs {
		p.allows(verb, group, resource, slices.Contains(verbs, verb))
	}
}

// allows waits until the API server allows the controller to do something, or denies
// it: its authorizer learns of a changed role a moment later.
func (p *plane) allows(verb, group, resource string, want bool) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("the controller is allowed to %s %s.%s: %t", verb, resource, group, want), func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "controller",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: verb, Group: group, Resource: resource},
		}}
		if err := p.Create(ctx, review); err != nil {
			return err //nolint:wrapcheck // eventually says what was awaited
		}
		if review.Status.Allowed != want {
			return fmt.Errorf("it is allowed: %t", review.Status.Allowed)
		}
		return nil
	})
}

// propagates creates a DirectPropagation.
func (p *plane) propagates(apiVersion, kind, name string) {
	p.t.Helper()
	made := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	made.Spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: apiVersion, Kind: kind, Name: name}
	made.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "member1"}}
	p.has(made)
}

// ready waits until Ready has the status and the reason, and returns its message.
func (p *plane) ready(status metav1.ConditionStatus, reason string) string {
	p.t.Helper()
	began, message := time.Now(), ""
	p.eventually(fmt.Sprintf("Ready of %s is %s, %s", theGadget, status, reason), func(ctx context.Context) error {
		found := &propagationv1alpha1.DirectPropagation{}
		if err := p.Get(ctx, client.ObjectKey{Namespace: "shop", Name: theGadget}, found); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(found.Status.Conditions, propagationv1alpha1.ConditionReady)
		if ready == nil || ready.Status != status || ready.Reason != reason {
			return fmt.Errorf("Ready is %+v", ready)
		}
		message = ready.Message
		return nil
	})
	p.t.Logf("after %v, %s is %s, %s: %s", time.Since(began).Round(10*time.Millisecond), theGadget, status, reason, message)
	return message
}

// sends waits until the Work of the Gadget contains a size.
func (p *plane) sends(size string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("the Work contains size %s", size), func(ctx context.Context) error {
		works := &workv1alpha1.WorkList{}
		if err := p.List(ctx, works, client.InNamespace("karmada-es-member1")); err != nil {
			return err
		}
		for i := range works.Items {
			if text := string(works.Items[i].Spec.Workload.Manifests[0].Raw); strings.Contains(text, `"Gadget"`) &&
				strings.Contains(text, fmt.Sprintf("%q", theGadget)) && strings.Contains(text, fmt.Sprintf("%q", size)) {
				return nil
			}
		}
		return errors.New("no Work contains it")
	})
}

func (p *plane) eventually(what string, holds func(context.Context) error) {
	p.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(p.t.Context(), 50*time.Millisecond, 90*time.Second, true, func(ctx context.Context) (bool, error) {
		last = holds(ctx)
		return last == nil, nil
	})
	if err != nil {
		p.t.Fatalf("waiting until %s: %v", what, last)
	}
}

// gadgets creates a kind Gadget in an API group of its own.
func (p *plane) gadgets() *apiextensionsv1.CustomResourceDefinition {
	p.t.Helper()
	crd := crdOf(schema.GroupVersion{Group: "g" + rand.String(5) + ".example.org", Version: "v1"}, "Gadget", apiextensionsv1.NamespaceScoped)
	crd.Spec.Versions = append(crd.Spec.Versions, servedVersionOf("v2", false))
	p.installs(crd)
	return crd
}

// installs creates a CRD and waits until its kind is served.
func (p *plane) installs(crd *apiextensionsv1.CustomResourceDefinition) {
	p.t.Helper()
	p.has(crd)
	p.eventually(crd.Name+" is served", func(ctx context.Context) error {
		for _, version := range crd.Spec.Versions {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind + "List"})
			fresh, err := client.New(p.config, client.Options{})
			if err != nil {
				return err
			}
			if err := fresh.List(ctx, list); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *plane) removes(crd *apiextensionsv1.CustomResourceDefinition) {
	p.t.Helper()
	p.eventually(crd.Name+" is gone", func(ctx context.Context) error {
		err := p.Delete(ctx, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // eventually says what was awaited
		}
		return errors.New("it still exists")
	})
}
