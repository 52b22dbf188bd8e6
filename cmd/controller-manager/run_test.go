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

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// start starts an API server, and returns the path of a kubeconfig for it.
func start(t *testing.T) (string, client.Client) {
	t.Helper()
	_, kubeconfig, server := startServer(t)
	return kubeconfig, server
}

func startServer(t *testing.T) (*envtest.Environment, string, client.Client) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	environment := &envtest.Environment{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		withStatus(anyKind(workv1alpha1.GroupVersion.String(), "works", "Work", apiextensionsv1.NamespaceScoped)),
		anyKind(clusterv1alpha1.GroupVersion.String(), "clusters", "Cluster", apiextensionsv1.ClusterScoped),
	}}
	if _, err := environment.Start(); err != nil {
		t.Fatalf("starting an API server, run make test-integration: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	options := defaultOptions()
	options.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(options.kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := options.connect()
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-system"}}
	if err := server.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return environment, options.kubeconfig, server
}

// anyKind is a kind that the controller watches, without any rules.
func anyKind(groupVersion, plural, kind string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	group, version, _ := strings.Cut(groupVersion, "/")
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

func withStatus(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	return crd
}

// asProgram makes the test binary act as the program.
const asProgram = "TEST_RUNS_CONTROLLER_MANAGER"

// asVersion, followed by a version as the last argument, sets the version that a
// release build has.
const asVersion = "version="

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		last := len(os.Args) - 1
		if as, found := strings.CutPrefix(os.Args[last], asVersion); found {
			version, os.Args = as, os.Args[:last]
		}
		main()
		return
	}
	os.Exit(m.Run())
}

// call runs the program in a separate process, and returns its output.
func call(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Env = append(os.Environ(), asProgram+"=1")
	printed, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, printed)
	}
	return string(printed), err
}

// When the kubeconfig changes, the process exits as it does on a signal: without an
// error, and after it has released the lease, so that no replica waits for it.
func TestChangedKubeconfigGivesTheLeaseBack(t *testing.T) {
	kubeconfig, server := start(t)
	if _, err := call(t, "install-crds", "--kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := call(t, "--kubeconfig", kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0")
		ended <- err
	}()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-system", Name: leaseName}}
	awaitHolder(t, server, lease, ended)

	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, append([]byte("# renewed\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it did not end within a minute of the change")
	}
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Fatal(err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the lease is still held by %s", holder)
	}
}

// The kubeconfig may lead to a path of a server, for example of a proxy.
func TestServerBehindAPathHasALeader(t *testing.T) {
	environment, kubeconfig, server := startServer(t)
	if _, err := call(t, "install-crds", "--kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(environment.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	toServer := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(target) }}
	proxy := httptest.NewServer(http.StripPrefix("/clusters/karmada", toServer))
	t.Cleanup(proxy.Close)
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":"%s/clusters/karmada"}}]}`, proxy.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := call(t, "--kubeconfig", kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0")
		ended <- err
	}()
	awaitHolder(t, server, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-system", Name: leaseName}}, ended)
}

// A process that cannot read what it needs waits for the permission. It ends all the
// same when its kubeconfig changes, for that may be what it waits for.
func TestChangedKubeconfigEndsAStart(t *testing.T) {
	environment, kubeconfig, _ := startServer(t)
	if _, err := call(t, "install-crds", "--kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
	user, err := environment.AddUser(envtest.User{Name: "nobody"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	probe, ended := freeAddress(t), make(chan error, 1)
	go func() {
		_, err := call(t, "--kubeconfig", kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address="+probe)
		ended <- err
	}()
	awaitProbe(t, probe, ended)
	if err := os.WriteFile(kubeconfig, append([]byte("# renewed\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it did not end within a minute of the change")
	}
}

// awaitProbe waits until a process is ready.
func awaitProbe(t *testing.T, address string, ended <-chan error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-ended:
			t.Fatalf("the manager ended by itself: %v", err)
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it has not begun to listen
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		t.Fatalf("waiting until the process is ready: %v", err)
	}
}

func awaitHolder(t *testing.T, server client.Client, lease *coordinationv1.Lease, ended <-chan error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-ended:
			t.Fatalf("the manager ended by itself: %v", err)
		default:
		}
		err := server.Get(ctx, client.ObjectKeyFromObject(lease), lease)
		return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "", nil
	})
	if err != nil {
		t.Fatalf("waiting until the lease is held: %v", err)
	}
}

// install-rbac prints what it does, and changes nothing the second time.
func TestInstallRBAC(t *testing.T) {
	kubeconfig, server := start(t)
	arguments := []string{"install-rbac", "--kubeconfig", kubeconfig, "--propagated=configmaps,deployments.apps"}
	out, err := call(t, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	want := "clusterrole.rbac.authorization.k8s.io/karmada-direct-propagated serverside-applied\n"
	if !strings.Contains(out, want) {
		t.Errorf("it printed\n%swithout %s", out, want)
	}
	first := rolesOf(t, server)
	if _, err := call(t, arguments...); err != nil {
		t.Fatal(err)
	}
	if second := rolesOf(t, server); first != second {
		t.Errorf("the second time it wrote something:\n%s\n%s", first, second)
	}
	role := &rbacv1.ClusterRole{}
	if err := server.Get(t.Context(), client.ObjectKey{Name: propagatedRole}, role); err != nil {
		t.Fatal(err)
	}
	named := []string{}
	for _, rule := range role.Rules {
		named = append(named, rule.Verbs[len(rule.Verbs)-1]+" "+rule.Resources[0])
	}
	want = "watch configmaps, watch deployments, update configmaps/status, update deployments/status"
	if got := strings.Join(named, ", "); got != want {
		t.Errorf("the rules of %s: %s, want %s", propagatedRole, got, want)
	}
}

// rolesOf lists the versions of everything that install-rbac writes.
func rolesOf(t *testing.T, server client.Client) string {
	t.Helper()
	objects, err := rbacObjects("karmada-system", propagatedRights{AggregateStatus: true})
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, object := range objects {
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(object.GroupVersionKind())
		if err := server.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
			t.Fatal(err)
		}
		versions[object.GetKind()+"/"+object.GetName()] = stored.GetResourceVersion()
	}
	text, err := json.Marshal(versions)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Without a ServiceAccount, no kubeconfig is written, and the error says what to do
// about it.
func TestWriteKubeconfigFails(t *testing.T) {
	kubeconfig, _ := start(t)
	output := filepath.Join(t.TempDir(), "written")
	_, err := call(t, "write-kubeconfig", "--kubeconfig", kubeconfig, "--output", output, "--timeout=10s")
	if want := "requesting a token for ServiceAccount karmada-system/karmada-direct of the Karmada API server, which install-rbac creates"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("a kubeconfig was written")
	}
	if _, err := call(t, "write-kubeconfig", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "--output") {
		t.Errorf("without --output the error is %v", err)
	}
}

// install-crds upgrades, but does not downgrade what a newer release has installed.
func TestInstallCRDsLeavesNewerOnes(t *testing.T) {
	kubeconfig, server := start(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	name := client.ObjectKey{Name: "directpropagations.propagation.karmada-direct.io"}
	install := func(as string) string {
		out, err := call(t, "install-crds", "--kubeconfig", kubeconfig, asVersion+as)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Get(t.Context(), name, crd); err != nil {
			t.Fatal(err)
		}
		return out
	}
	install("v0.2.0")
	newer := crd.ResourceVersion
	if out, want := install("v0.1.9"), "left as the newer v0.2.0 has installed it"; !strings.Contains(out, want) || crd.ResourceVersion != newer {
		t.Errorf("an older release changed it (%v) or printed\n%swithout %q", crd.ResourceVersion != newer, out, want)
	}
	if install("v0.2.0"); crd.ResourceVersion != newer {
		t.Error("the same release wrote it again")
	}
	if install("v0.3.0"); crd.Annotations[installedByAnnotation] != "v0.3.0" {
		t.Errorf("a newer release did not upgrade it: %v", crd.Annotations)
	}
}
