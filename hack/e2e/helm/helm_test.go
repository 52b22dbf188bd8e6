//go:build e2e_helm

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

package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

const (
	crdName   = "directpropagations.propagation.karmada-direct.io"
	namespace = "karmada-system" // on the Karmada API server
)

// Each of the ways in which Karmada is installed leaves another Secret, and each
// of the ways to install CRDs and roles is taken once. What is rendered then does
// the whole journey.
func TestPresets(t *testing.T) {
	for _, preset := range []struct {
		name        string
		secret, key string
		values      []string
		jobs        int
		// before is done on the Karmada API server by hand.
		before func(*testing.T)
	}{
		{name: "karmadactl", secret: "karmada-controller-manager-config", key: "karmada.config"},
		{
			name: "helm", secret: "prod-kubeconfig", key: "kubeconfig", jobs: 1,
			values: []string{"karmada.preset=helm", "karmada.name=prod", "crds.install=job", "rbac.install=job"},
		},
		{
			name: "operator", secret: "prod-admin-config", key: "karmada.config",
			values: []string{"karmada.preset=operator", "karmada.name=prod", "crds.install=none", "rbac.install=none"},
			before: func(t *testing.T) {
				kubectl(t, "apply", "--server-side", "-k", filepath.Join(root, "cmd", "controller-manager", "install"))
			},
		},
		{
			name: "custom", secret: "mine", key: "config",
			values: []string{
				"karmada.preset=custom", "karmada.kubeconfigSecret.name=mine", "karmada.kubeconfigSecret.key=config",
				"rbac.leastPrivilege=false", "rbac.install=none",
			},
		},
	} {
		t.Run(preset.name, func(t *testing.T) {
			forgetInstallation(t)
			r := newRelease(t)
			r.hasSecret(preset.secret, preset.key, adminKubeconfig(t))
			if preset.before != nil {
				preset.before(t)
			}
			notes := r.installs(chartFolder(), preset.values...)
			if want := fmt.Sprintf("of Secret %s (key %s)", preset.secret, preset.key); !strings.Contains(notes, want) {
				t.Errorf("the notes lack %q:\n%s", want, notes)
			}
			for _, pod := range r.jobPods(preset.jobs) {
				prepare(t, pod).runs()
			}
			r.startsOne()
			theWholeJourney(t)
			nothingInTheHostCluster(t)
		})
	}
}

// kubectl runs kubectl against the Karmada API server.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	printed, err := run(t, "kubectl", append(arguments, "--kubeconfig", kubeconfig("karmada"))...)
	if err != nil {
		t.Fatal(err)
	}
	return printed
}

// forgetInstallation removes from the Karmada API server what an installation
// has put there, so that the next one has to do it.
func forgetInstallation(t *testing.T) {
	t.Helper()
	// A test that failed may have left objects that no controller looks after.
	left := &propagationv1alpha1.DirectPropagationList{}
	if err := karmada.List(t.Context(), left); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for i := range left.Items {
		t.Logf("an earlier test has left DirectPropagation %s/%s", left.Items[i].Namespace, left.Items[i].Name)
		letGo := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := karmada.Patch(t.Context(), &left.Items[i], letGo); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "delete", "--ignore-not-found", "--timeout=1m", "-f", filepath.Join(root, "cmd", "controller-manager", "install", "install.yaml"),
		"-f", filepath.Join(root, "cmd", "controller-manager", "install", "guardrails.yaml"))
	kubectl(t, "delete", "--ignore-not-found", "secret,lease", "--namespace", namespace, "karmada-direct-token", "karmada-direct-credentials", "karmada-direct")
}

// nothingInTheHostCluster checks that what belongs on the Karmada API server is
// not in the host cluster.
func nothingInTheHostCluster(t *testing.T) {
	t.Helper()
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := host.List(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	if len(crds.Items) > 0 {
		t.Errorf("the host cluster has CRD %s", crds.Items[0].Name)
	}
	roles, bindings := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}
	for _, list := range []client.ObjectList{roles, bindings} {
		if err := host.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range roles.Items {
		if strings.Contains(role.Name, "direct") {
			t.Errorf("the host cluster has ClusterRole %s", role.Name)
		}
	}
	for _, binding := range bindings.Items {
		if strings.Contains(binding.Name, "direct") {
			t.Errorf("the host cluster has ClusterRoleBinding %s", binding.Name)
		}
	}
}

// The controller has the rights of its role and no others.
func TestLeastPrivilege(t *testing.T) {
	forgetInstallation(t)
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	r.installs(chartFolder(), "guardrails.enabled=true", "rbac.propagated={configmaps,deployments.apps,clusterroles.rbac.authorization.k8s.io}")
	running := r.startsOne()
	theWholeJourney(t)
	opensTheShop(t)
	roleIsPropagated(t)

	config, own := asController(t, running)
	who, err := run(t, "kubectl", "auth", "whoami", "--kubeconfig", config, "--output", "jsonpath={.status.userInfo.username}")
	if want := "system:serviceaccount:" + namespace + ":karmada-direct"; err != nil || who != want {
		t.Errorf("the controller is %q, %v; want %q", who, err, want)
	}
	sameRules(t, own)
	for action, want := range map[string]bool{
		"get configmaps": true, "list deployments.apps": true, "create works.work.karmada.io": true, "watch clusters.cluster.karmada.io": true,
		"update directpropagations.propagation.karmada-direct.io/status": true,
		"get secrets": false, "list statefulsets.apps": false, "create deployments.apps": false, "update directpropagations.propagation.karmada-direct.io": false,
		"delete clusters.cluster.karmada.io": false, "create customresourcedefinitions.apiextensions.k8s.io": false, "get propagationpolicies.policy.karmada.io": false,
		"create serviceaccounts/token": false, "create clusterrolebindings.rbac.authorization.k8s.io": false,
	} {
		verb, resource, _ := strings.Cut(action, " ")
		resource, part, _ := strings.Cut(resource, "/")
		printed, err := run(t, "kubectl", "auth", "can-i", verb, resource, "--subresource", part, "--all-namespaces", "--kubeconfig", config)
		if answer := err == nil && strings.HasPrefix(strings.TrimSpace(lastLine(printed)), "yes"); answer != want {
			t.Errorf("the controller may %s: %v, want %v\n%s", action, answer, want, printed)
		}
	}

	// A kind that is not named is refused, and the object says so.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "helm-secret"}, StringData: map[string]string{"key": "value"}}
	if err := karmada.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = karmada.Delete(context.Background(), secret) })
	kubectl(t, "apply", "-f", writeFile(t, `
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata: {name: helm-secret, namespace: default}
spec:
  resource: {apiVersion: v1, kind: Secret, name: helm-secret}
  clusters: [{name: member1}]
`))
	eventually(t, "the object says that Secrets may not be read", func(context.Context) error {
		printed := kubectl(t, "get", "directpropagation", "helm-secret", "--namespace", "default", "--output", "wide")
		if !strings.Contains(printed, "ResourceReadFailed") || !strings.Contains(printed, "forbidden") {
			return fmt.Errorf("%s", printed)
		}
		return nil
	})
	kubectl(t, "delete", "directpropagation", "helm-secret", "--namespace", "default")
}

// opensTheShop propagates what the documentation does: a Deployment and a
// ConfigMap.
func opensTheShop(t *testing.T) {
	t.Helper()
	shop := filepath.Join(root, "docs", "examples", "shop.yaml")
	kubectl(t, "apply", "-f", shop)
	kubectl(t, "wait", "directpropagations", "--all", "--namespace", "shop", "--for=condition=Ready", "--timeout=2m")
	kubectl(t, "delete", "directpropagations", "--all", "--namespace", "shop", "--timeout=2m")
	kubectl(t, "delete", "-f", shop, "--ignore-not-found", "--timeout=2m")
}

// roleIsPropagated does the journey of what is cluster-scoped.
func roleIsPropagated(t *testing.T) {
	t.Helper()
	role := writeFile(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: helm-reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`)
	propagation := writeFile(t, `
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: ClusterDirectPropagation
metadata: {name: helm-reader}
spec:
  resource: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: helm-reader}
  clusters: [{name: member1}, {name: member2}]
`)
	kubectl(t, "apply", "-f", role, "-f", propagation)
	kubectl(t, "wait", "clusterdirectpropagation", "helm-reader", "--for=condition=Ready", "--timeout=2m")
	have := func(ctx context.Context, want bool) error {
		for name, member := range members {
			err := member.Get(ctx, client.ObjectKey{Name: "helm-reader"}, &rbacv1.ClusterRole{})
			if client.IgnoreNotFound(err) != nil || (err == nil) != want {
				return fmt.Errorf("%s has it: %v (%v), want %v", name, err == nil, err, want)
			}
		}
		return nil
	}
	if err := have(t.Context(), true); err != nil {
		t.Error(err)
	}
	kubectl(t, "delete", "-f", propagation, "--timeout=2m")
	eventually(t, "the members lack it", func(ctx context.Context) error { return have(ctx, false) })
	kubectl(t, "delete", "-f", role)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range slices.Backward(lines) {
		if line == "yes" || line == "no" || strings.HasPrefix(line, "no ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asController returns the kubeconfig that the Pod works with, and a client by
// it.
func asController(t *testing.T, running *runningPod) (string, client.Client) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(running.volumes["own-kubeconfig"], "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(config.BearerTokenFile)
	if err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, string(tokenKubeconfig(t, config, string(token))))
	own, err := client.New(config, client.Options{Scheme: karmada.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return path, own
}

// sameRules asks the API server which rules the controller has, and compares
// them with the roles that are written down. What every authenticated user may
// do, asking who one is and what one may, is set aside.
func sameRules(t *testing.T, own client.Client) {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := own.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		if slices.ContainsFunc(rule.Resources, func(resource string) bool { return strings.HasPrefix(resource, "selfsubject") }) {
			// Everybody may ask about themselves.
			continue
		}
		for permission := range permissions(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs) {
			have[permission] = true
		}
	}
	want := map[string]bool{}
	controller, propagated, local := &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}, &rbacv1.Role{} // the aggregated role has no rules here
	for key, role := range map[client.ObjectKey]client.Object{
		{Name: "karmada-direct"}: controller, {Name: "karmada-direct-propagated"}: propagated, {Namespace: namespace, Name: "karmada-direct"}: local,
	} {
		if err := karmada.Get(t.Context(), key, role); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range slices.Concat(controller.Rules, propagated.Rules, local.Rules) {
		maps.Copy(want, permissions(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs))
	}
	if len(want) < 20 {
		t.Fatalf("the roles give %d permissions only", len(want))
	}
	for permission := range have {
		if !want[permission] {
			t.Errorf("the controller may %s, which no role of its own says", permission)
		}
	}
	for permission := range want {
		if !have[permission] {
			t.Errorf("the controller may not %s", permission)
		}
	}
}

func permissions(groups, resources, names, verbs []string) map[string]bool {
	if len(names) == 0 {
		names = []string{""}
	}
	all := map[string]bool{}
	for _, group := range groups {
		for _, resource := range resources {
			for _, name := range names {
				for _, verb := range verbs {
					all[verb+" "+resource+"."+group+"/"+name] = true
				}
			}
		}
	}
	return all
}

// Karmada's users get at the new kinds by the roles that they have already.
func TestUsersRoles(t *testing.T) {
	forgetInstallation(t)
	kubectl(t, "apply", "--server-side", "-f", filepath.Join(root, "cmd", "controller-manager", "install", "install.yaml"))
	for _, role := range []string{"view", "edit", "admin"} {
		user := "helm-" + role
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		}
		if err := karmada.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = karmada.Delete(context.Background(), binding) })
		for verb, want := range map[string]bool{"get": true, "list": true, "watch": true, "create": role != "view", "delete": role != "view", "patch": role != "view"} {
			eventually(t, fmt.Sprintf("%s may %s: %v", role, verb, want), func(ctx context.Context) error {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: user,
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: "default", Verb: verb, Group: "propagation.karmada-direct.io", Resource: "directpropagations",
					},
				}}
				if err := karmada.Create(ctx, review); err != nil {
					return err
				}
				if review.Status.Allowed != want {
					return fmt.Errorf("allowed: %v, %s", review.Status.Allowed, review.Status.Reason)
				}
				return nil
			})
		}
	}
}

// A release is upgraded from the chart before this one, rolled back and removed.
// Members keep what they have all along, no Work is written for it, and the CRDs
// stay.
func TestUpgradeRollbackUninstall(t *testing.T) {
	previous, version := previousChart(t)
	forgetInstallation(t)
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	t.Logf("upgrading from chart %s", version)
	r.installs(previous)
	old := r.startsOne()
	j := creates(t, "before")
	works := j.works()
	before := installedBy(t)

	r.helm(slices.Concat([]string{"upgrade", r.name, chartFolder(), "--wait", "--timeout", "2m"}, onLoopback(t))...)
	upgraded := r.startsOne() // a new Pod is ready before an old one goes
	old.stops()
	if a, b := old.pod.Spec.Containers[0].Image, upgraded.pod.Spec.Containers[0].Image; a == b {
		t.Errorf("the image is %s before and after", a)
	}
	now := installedBy(t)
	if now == before {
		t.Errorf("the CRD is still that of %s", before)
	}
	holds(t, upgraded)
	if got := j.works(); !maps.Equal(got, works) {
		t.Errorf("the upgrade wrote Works: %v, then %v", works, got)
	}
	j.changes("after the upgrade")
	works = j.works()

	r.helm("rollback", r.name, "1", "--wait", "--timeout", "2m")
	back := r.startsOne()
	upgraded.stops()
	if a, b := old.pod.Spec.Containers[0].Image, back.pod.Spec.Containers[0].Image; a != b {
		t.Errorf("rolled back, the image is %s, was %s", b, a)
	}
	if got := installedBy(t); got != now {
		t.Errorf("rolled back, the CRD is that of %s, which may not know all that is stored", got)
	}
	holds(t, back)
	if got := j.works(); !maps.Equal(got, works) {
		t.Errorf("the rollback wrote Works: %v, then %v", works, got)
	}
	j.changes("after the rollback")
	works = j.works()

	r.helm("uninstall", r.name, "--wait", "--timeout", "2m")
	back.stops()
	remains(t, r, j, works)
}

// installedBy returns which version has installed the CRD.
func installedBy(t *testing.T) string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := karmada.Get(t.Context(), client.ObjectKey{Name: crdName}, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Annotations["propagation.karmada-direct.io/installed-by"]
}

// holds waits until a Pod is the one that works.
func holds(t *testing.T, running *runningPod) {
	t.Helper()
	eventually(t, "Pod "+running.pod.Name+" works", func(ctx context.Context) error {
		text, err := metrics(ctx, running)
		if err != nil {
			return err
		}
		if !strings.Contains(text, `leader_election_master_status{name="karmada-direct"} 1`) {
			return errors.New("it waits for the lease")
		}
		return nil
	})
}

func metrics(ctx context.Context, running *runningPod) (string, error) {
	response, err := running.get(ctx, "metrics", "/metrics")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// remains checks what uninstalling leaves: all of Karmada's, nothing in the host
// cluster.
func remains(t *testing.T, r *release, j *traveler, works map[string]int64) {
	t.Helper()
	installedBy(t)
	if got := j.works(); !maps.Equal(got, works) {
		t.Errorf("the Works were %v and are %v", works, got)
	}
	if err := j.told(t.Context(), "after the rollback"); err != nil {
		t.Errorf("the members do not keep what they had: %v", err)
	}
	if err := karmada.Get(t.Context(), client.ObjectKeyFromObject(j.propagation()), j.propagation()); err != nil {
		t.Errorf("the DirectPropagation is gone: %v", err)
	}
	left, err := r.run("kubectl", "get", "all,serviceaccounts,configmaps,poddisruptionbudgets", "--selector", "app.kubernetes.io/instance="+r.name, "--output", "name")
	if err != nil || strings.TrimSpace(strings.ReplaceAll(left, "No resources found", "")) != "" && !strings.HasPrefix(left, "No resources found") {
		t.Errorf("in the host cluster there is left: %s, %v", left, err)
	}
	// Another installation takes it up where it was.
	r.installs(chartFolder())
	r.startsOne()
	j.changes("again")
	j.deletes()
}

// When the Secret changes, the process ends in peace, is started again, and
// works with what is in the Secret now.
func TestKubeconfigIsRenewed(t *testing.T) {
	forgetInstallation(t)
	r := newRelease(t)
	first := adminByToken(t, r, "first")
	r.hasSecret("mine", "kubeconfig", first)
	r.installs(chartFolder(), "karmada.preset=custom", "karmada.kubeconfigSecret.name=mine", "rbac.leastPrivilege=false")
	running := r.startsOne()
	j := creates(t, "with the first")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "mine"}, Data: map[string][]byte{"kubeconfig": adminByToken(t, r, "second")}}
	if err := host.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	running.refresh("karmada")
	eventually(t, "the process was started again", func(context.Context) error {
		if running.restarted() == 0 {
			return errors.New("it was not")
		}
		return nil
	})
	if want := "The kubeconfig has changed; ending"; !strings.Contains(running.printed(), want) {
		t.Errorf("it did not print %q:\n%s", want, running.printed())
	}
	// The first identity is worth nothing from now on.
	gone := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.namespace + "-first"}}
	if err := karmada.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	j.changes("with the second")
	j.deletes()
	if count := running.restarted(); count != 1 {
		t.Errorf("it was started again %d times", count)
	}
}

// adminByToken makes an identity on the Karmada API server that may do all, and
// a kubeconfig for it.
func adminByToken(t *testing.T, r *release, word string) []byte {
	t.Helper()
	name := r.namespace + "-" + word
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	for _, object := range []client.Object{account, binding} {
		if err := karmada.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = karmada.Delete(context.Background(), object) })
	}
	token := strings.TrimSpace(kubectl(t, "create", "token", name, "--namespace", namespace))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig("karmada"))
	if err != nil {
		t.Fatal(err)
	}
	return tokenKubeconfig(t, config, token)
}

func tokenKubeconfig(t *testing.T, config *rest.Config, token string) []byte {
	t.Helper()
	made := clientcmdapi.NewConfig()
	made.Clusters["karmada"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	made.AuthInfos["karmada"] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts["karmada"] = &clientcmdapi.Context{Cluster: "karmada", AuthInfo: "karmada"}
	made.CurrentContext = "karmada"
	content, err := clientcmd.Write(*made)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Wrong values are refused before anything is done, and it is said why.
func TestWrongValues(t *testing.T) {
	r := newRelease(t)
	for value, want := range map[string]string{
		"crds.install=pod":       "at '/crds/install': value must be one of 'initContainer', 'job', 'none'",
		"karmada.preset=kubeadm": "at '/karmada/preset': value must be one of 'karmadactl', 'helm', 'operator', 'custom'",
		"replicas=3":             "additional properties 'replicas' not allowed",
		"image.registry=":        "say which registry has the image",
		"karmada.preset=custom":  "say in karmada.kubeconfigSecret.name which Secret holds the kubeconfig of the Karmada API server",
	} {
		printed, err := r.run("helm", "install", r.name, chartFolder(), "--set", "image.registry="+registry, "--set", value)
		if err == nil || !strings.Contains(printed, want) {
			t.Errorf("with %s helm printed\n%swithout %q", value, printed, want)
		}
	}
	if printed := r.helm("list", "--all", "--short"); strings.TrimSpace(printed) != "" {
		t.Errorf("a release was made: %s", printed)
	}
}

// The chart is packaged, pushed to a registry and installed from there, with
// all that the host cluster has kinds for.
func TestEverythingFromARegistry(t *testing.T) {
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	archive := t.TempDir()
	printed, err := run(t, "helm", "package", chartFolder(), "--destination", archive)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(archive, "direct-propagation-*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("helm package made %v: %s", packages, printed)
	}
	repository := "oci://" + startRegistry(t) + "/charts"
	if printed, err := run(t, "helm", "push", packages[0], repository, "--plain-http"); err != nil || !strings.Contains(printed, "Digest: sha256:") {
		t.Fatalf("helm push printed %s, %v", printed, err)
	}
	pulled := t.TempDir()
	r.helm("pull", repository+"/direct-propagation", "--plain-http", "--destination", pulled)
	packages, err = filepath.Glob(filepath.Join(pulled, "direct-propagation-*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("helm pull made %v, %v", packages, err)
	}
	r.installs(packages[0], "networkPolicy.enabled=true", "priorityClass.create=true", "priorityClass.name="+r.namespace, "metrics.dashboard.enabled=true",
		"extraObjects[0].apiVersion=v1", "extraObjects[0].kind=ConfigMap", "extraObjects[0].metadata.name=more")
	for _, object := range []string{"networkpolicy/kd-direct-propagation", "poddisruptionbudget/kd-direct-propagation", "configmap/kd-direct-propagation-dashboard", "configmap/more", "priorityclass/" + r.namespace} {
		if _, err := r.run("kubectl", "get", object); err != nil {
			t.Error(err)
		}
	}
	jobs := &batchv1.JobList{}
	if err := host.List(t.Context(), jobs, client.InNamespace(r.namespace)); err != nil || len(jobs.Items) > 0 {
		t.Errorf("there are %d Jobs, %v", len(jobs.Items), err)
	}
}

// Alerts and dashboard speak of metrics that the running controller serves.
func TestMetrics(t *testing.T) {
	forgetInstallation(t)
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	r.installs(chartFolder())
	running := r.startsOne()
	j := creates(t, "hello")
	missing(t) // a reconcile that ends with trouble
	rules := r.helm(slices.Concat([]string{"template", r.name, chartFolder(), "--show-only", "templates/prometheusrule.yaml", "--set", "image.registry=" + registry, "--set", "metrics.prometheusRule.enabled=true"})...)
	dashboard, err := os.ReadFile(filepath.Join(chartFolder(), "dashboards", "karmada-direct.json"))
	if err != nil {
		t.Fatal(err)
	}
	// Those of the process come from /proc, which is not in these root folders.
	wanted := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(karmada_direct|controller_runtime|workqueue|rest_client|leader_election)_\w+`).FindAllString(rules+string(dashboard), -1) {
		wanted[name] = true
	}
	if len(wanted) < 8 {
		t.Fatalf("alerts and dashboard speak of %v only", wanted)
	}
	eventually(t, "every metric is served", func(ctx context.Context) error {
		text, err := metrics(ctx, running)
		if err != nil {
			return err
		}
		for name := range wanted {
			if !strings.Contains(text, "\n"+name+"{") {
				return fmt.Errorf("%s is not", name)
			}
		}
		return nil
	})
	j.deletes()
}

// missing makes a DirectPropagation of a resource that is not there, until the
// test ends.
func missing(t *testing.T) {
	t.Helper()
	object := (&traveler{namespace: "default"}).propagation()
	object.Name, object.Spec.Resource.Name = "helm-missing", "helm-missing"
	if err := karmada.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		content, _ := json.Marshal(object.Status)
		if err := karmada.Delete(context.Background(), object); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%v, %s", err, content)
		}
		eventually(t, "it is gone", func(ctx context.Context) error {
			if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there (%v)", err)
			}
			return nil
		})
	})
}
