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

// recipe describes one `go build`: a module next to this program, and what is built
// from it. Each recipe is built and cached separately.
type recipe struct {
	name     string   // its name in "fleet build"
	module   string   // folder relative to hack/fleet
	packages []string // each becomes a program with the name of its folder
	shows    string   // what the user sees during the build
	ldflags  []string // -X values
	patch    patch
	// modfile replaces the go.mod file of the module: a path relative to hack/fleet.
	modfile string
	// links are additional names of the module's program.
	links []string
	// manifests are files of the module manifestsOf that are installed into API
	// servers.
	manifestsOf string
	manifests   []string
}

// patch changes one place in a file of a module that has no flag for it.
type patch struct {
	module, file, old, new string
}

const (
	karmadaModule = "github.com/karmada-io/karmada"
	argoCDModule  = "github.com/argoproj/argo-cd/v3"
)

// componentsRecipe builds the servers and their clients.
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
		// Without these, the servers report version v0.0.0-master, which misleads clients
		// that check the version.
		"k8s.io/component-base/version.gitVersion={k8s.io/kubernetes}",
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/component-base/version.gitMinor={k8s.io/kubernetes minor}",
		"k8s.io/component-base/version.gitTreeState=clean",
		"github.com/karmada-io/karmada/pkg/version.gitVersion={github.com/karmada-io/karmada}",
		"github.com/karmada-io/karmada/pkg/version.gitTreeState=clean",
	},
}

// kwokRecipe builds kwok with the libraries of the components. With kwok's own,
// older libraries, Kubernetes' libraries would be compiled twice.
var kwokRecipe = recipe{
	name:     "kwok",
	module:   "kwok",
	packages: []string{"."},
	shows:    "kwok",
	// The annotation is only checked, never used, and the constant with its name no
	// longer exists in the libraries.
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

// helmRecipe builds the helm command from the module that uses Helm as a library.
var helmRecipe = recipe{
	name:     "helm",
	module:   "../chart",
	packages: []string{"helm.sh/helm/v3/cmd/helm"},
	shows:    "helm",
	ldflags: []string{
		// The version that helm reports, and the Kubernetes version for which it renders
		// charts without a cluster.
		"helm.sh/helm/v3/internal/version.version={helm.sh/helm/v3}",
		"helm.sh/helm/v3/internal/version.metadata=",
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={k8s.io/client-go minor}",
		"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
		"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor={k8s.io/client-go minor}",
	},
}

// fleetRecipes build what every fleet runs.
var fleetRecipes = []recipe{componentsRecipe, kwokRecipe}

// otherVersions are the versions of Karmada that a fleet can run in place of the one that
// components/go.mod pins. Each has a file in versions/ that pins all modules, because an
// older Karmada does not compile with newer libraries of Kubernetes.
var otherVersions = []string{"v1.16.0", "v1.18.1"}

// recipesOf returns what a fleet with a version of Karmada runs. An empty version means
// the one that components/go.mod pins.
func recipesOf(version string) ([]recipe, error) {
	if version == "" {
		return fleetRecipes, nil
	}
	if !slices.Contains(otherVersions, version) {
		return nil, fmt.Errorf("--karmada-version=%s: want one of %s", version, strings.Join(otherVersions, ", "))
	}
	other := componentsRecipe
	other.name += "-" + version
	other.shows = "etcd, Kubernetes and Karmada " + version
	other.modfile = filepath.Join("versions", "karmada-"+version+".mod")
	return []recipe{other, kwokRecipe}, nil
}

// modfileIn returns the path of the file that replaces go.mod; empty if none does.
func (r recipe) modfileIn(sources string) string {
	if r.modfile == "" {
		return ""
	}
	return filepath.Join(sources, r.modfile)
}

// argoCDRecipes build what a fleet with Argo CD runs in addition.
var argoCDRecipes = []recipe{{
	name:     "argocd",
	module:   "argocd",
	packages: []string{"."},
	shows:    "Argo CD",
	ldflags: []string{
		"github.com/argoproj/argo-cd/v3/common.version={github.com/argoproj/argo-cd/v3}",
		"github.com/argoproj/argo-cd/v3/common.gitTreeState=clean",
	},
	// Without the patch, the metrics are served on all addresses of the machine,
	// regardless of the flags.
	patch: patch{
		module: argoCDModule, file: "controller/appcontroller.go",
		old: `"0.0.0.0:%d"`, new: `"` + loopback + `:%d"`,
	},
	links:       []string{programArgoCDController, programArgoCDRepoServer},
	manifestsOf: argoCDModule,
	manifests:   []string{"manifests/crds/application-crd.yaml", "manifests/crds/appproject-crd.yaml"},
}}

// apply copies a module to a folder, patches the copy, and returns a go.mod file
// with which the module in dir is built with the copy.
func (p patch) apply(ctx context.Context, dir, to string) (modfile string, err error) {
	if output, err := goCommand(ctx, dir, "mod", "download", p.module).CombinedOutput(); err != nil {
		return "", fmt.Errorf("downloading module %s: %w\n%s", p.module, err, output)
	}
	from, err := goList(ctx, dir, "", "{{.Dir}}", p.module)
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

// placeholder matches, in an -X value, a placeholder for the version of a module or
// for its minor version.
var placeholder = regexp.MustCompile(`\{([^ }]+)( minor)?\}`)

// linkerFlags inserts module versions into the -X values. It omits debug symbols,
// which would double the size.
func (r recipe) linkerFlags(ctx context.Context, dir, modfile string) (string, error) {
	flags := "-s -w"
	for _, value := range r.ldflags {
		for _, match := range placeholder.FindAllStringSubmatch(value, -1) {
			version, err := goList(ctx, dir, modfile, "{{.Version}}", match[1])
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

// findRecipes returns recipes by name. Without names, it returns those of a fleet.
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
