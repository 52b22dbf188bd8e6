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
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// recipe is one `go build`: a module beside this program, and what is made of
// it. Each is built and kept on its own.
type recipe struct {
	name     string   // what "fleet build" calls it
	module   string   // folder below hack/fleet, or beside it
	packages []string // each becomes a program of its folder's name
	shows    string   // what the user sees while it is built
	ldflags  []string // -X values
	patch    patch
	// links are names by which the module's program is called besides its own.
	links []string
	// manifests are files of a module, to be installed into API servers.
	manifestsOf string
	manifests   []string
}

// patch changes one place in a file of a module, where there is no flag for it.
type patch struct {
	module, file, old, new string
}

const (
	karmadaModule = "github.com/karmada-io/karmada"
	argoCDModule  = "github.com/argoproj/argo-cd/v3"
)

// componentsRecipe makes the servers, and the clients that go with them.
var componentsRecipe = recipe{
	name:     "components",
	module:   "components",
	packages: []string{".", "./" + programKarmadaAggregated},
	shows:    "etcd, Kubernetes and Karmada",
	links: []string{
		programEtcd, programKubeAPIServer, programKubeControllerManager, programKubeScheduler, programKubectl,
		programKarmadaControllerManager, programKarmadaScheduler, programKarmadaWebhook, programKarmadaAgent, programKarmadactl,
	},
	manifestsOf: karmadaModule,
	manifests: []string{
		"charts/karmada/_crds/bases",
		"charts/karmada/_crds/patches",
		"artifacts/deploy/webhook-configuration.yaml",
		"artifacts/deploy/admin-clusterrole-aggregation.yaml",
		"artifacts/deploy/cluster-proxy-admin-rbac.yaml",
	},
	ldflags: []string{
		// Without them the servers call themselves v0.0.0-master, and
		// clients that look at the version misjudge them.
		"k8s.io/component-base/version.gitVersion={k8s.io/kubernetes}",
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/component-base/version.gitMinor={k8s.io/kubernetes minor}",
		"k8s.io/component-base/version.gitTreeState=clean",
		"github.com/karmada-io/karmada/pkg/version.gitVersion={github.com/karmada-io/karmada}",
		"github.com/karmada-io/karmada/pkg/version.gitTreeState=clean",
	},
}

// kwokRecipe makes kwok with the libraries of the components: with its own, older
// ones, Kubernetes' libraries would be compiled twice.
var kwokRecipe = recipe{
	name:     "kwok",
	module:   "kwok",
	packages: []string{"."},
	shows:    "kwok",
	// The annotation is only checked and never used, and the constant with its
	// name is not in the libraries any more.
	patch: patch{
		module: "sigs.k8s.io/kwok", file: "pkg/utils/informer/informer.go",
		old: kwokBlueprintCheck, new: "\t\t\t\t\treturn nil\n",
	},
}

const kwokBlueprintCheck = `					base64EncodedInitialEventsListBlueprint := meta.GetAnnotations()[metav1.InitialEventsListBlueprintAnnotationKey]
					if len(base64EncodedInitialEventsListBlueprint) == 0 {
						return fmt.Errorf("%q annotation is missing content", metav1.InitialEventsListBlueprintAnnotationKey)
					}
					return nil
`

// helmRecipe makes the command from the module that has Helm as a library.
var helmRecipe = recipe{
	name:     "helm",
	module:   "../chart",
	packages: []string{"helm.sh/helm/v3/cmd/helm"},
	shows:    "helm",
	ldflags: []string{
		// What it says it is, and which Kubernetes charts are rendered for
		// when there is none to ask.
		"helm.sh/helm/v3/internal/version.version={helm.sh/helm/v3}",
		"helm.sh/helm/v3/internal/version.metadata=",
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={k8s.io/client-go minor}",
		"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
		"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor={k8s.io/client-go minor}",
	},
}

// fleetRecipes make what every fleet runs.
var fleetRecipes = []recipe{componentsRecipe, kwokRecipe}

// argoCDRecipes make what a fleet with Argo CD runs besides.
var argoCDRecipes = []recipe{{
	name:     "argocd",
	module:   "argocd",
	packages: []string{"."},
	shows:    "Argo CD",
	ldflags: []string{
		"github.com/argoproj/argo-cd/v3/common.version={github.com/argoproj/argo-cd/v3}",
		"github.com/argoproj/argo-cd/v3/common.gitTreeState=clean",
	},
	// Its metrics are served on every address of the machine, whatever the flags.
	patch: patch{
		module: argoCDModule, file: "controller/appcontroller.go",
		old: `"0.0.0.0:%d"`, new: `"` + loopback + `:%d"`,
	},
	links:       []string{programArgoCDController, programArgoCDRepoServer},
	manifestsOf: argoCDModule,
	manifests:   []string{"manifests/crds/application-crd.yaml", "manifests/crds/appproject-crd.yaml"},
}}

// apply copies a module to a folder with the change in it, and returns the
// go.mod file by which the module in dir is built with the copy.
func (p patch) apply(ctx context.Context, dir, to string) (modfile string, err error) {
	if output, err := goCommand(ctx, dir, "mod", "download", p.module).CombinedOutput(); err != nil {
		return "", fmt.Errorf("downloading module %s: %w\n%s", p.module, err, output)
	}
	from, err := goList(ctx, dir, "{{.Dir}}", p.module)
	if err != nil {
		return "", err
	}
	copied := filepath.Join(to, "module")
	if err := copyTree(from, copied); err != nil {
		return "", fmt.Errorf("copying module %s: %w", p.module, err)
	}
	file := filepath.Join(copied, p.file)
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("patching module %s: %w", p.module, err)
	}
	if count := bytes.Count(content, []byte(p.old)); count != 1 {
		return "", fmt.Errorf("patching module %s: %s has %s %d times, not once", p.module, p.file, p.old, count)
	}
	if err := writeFile(file, bytes.Replace(content, []byte(p.old), []byte(p.new), 1), 0o644); err != nil {
		return "", fmt.Errorf("patching module %s: %w", p.module, err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyTree(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return "", fmt.Errorf("patching module %s: %w", p.module, err)
		}
	}
	modfile = filepath.Join(to, "go.mod")
	output, err := goCommand(ctx, dir, "mod", "edit", "-replace="+p.module+"="+copied, modfile).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("patching module %s: %w\n%s", p.module, err, output)
	}
	return modfile, nil
}

// placeholder stands in an -X value for the version of a module, or for the
// minor part of it.
var placeholder = regexp.MustCompile(`\{([^ }]+)( minor)?\}`)

// linkerFlags fills the versions of the module's requirements into the -X
// values. Symbols for debuggers are left out: they double the size.
func (r recipe) linkerFlags(ctx context.Context, dir string) (string, error) {
	flags := "-s -w"
	for _, value := range r.ldflags {
		for _, match := range placeholder.FindAllStringSubmatch(value, -1) {
			version, err := goList(ctx, dir, "{{.Version}}", match[1])
			if err != nil {
				return "", err
			}
			if match[2] != "" {
				version = strings.Split(version, ".")[1]
			}
			value = strings.ReplaceAll(value, match[0], version)
		}
		flags += " -X " + value
	}
	return flags, nil
}

// findRecipes returns recipes by their names; those of a fleet for none.
func findRecipes(names []string) ([]recipe, error) {
	if len(names) == 0 {
		return fleetRecipes, nil
	}
	all := append([]recipe{componentsRecipe, kwokRecipe, helmRecipe}, argoCDRecipes...)
	found := make([]recipe, len(names))
	for i, name := range names {
		at := slices.IndexFunc(all, func(r recipe) bool { return r.name == name })
		if at < 0 {
			return nil, fmt.Errorf("%q cannot be built: want components, kwok, helm or argocd", name)
		}
		found[i] = all[at]
	}
	return found, nil
}
