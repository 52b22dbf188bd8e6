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
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Build is where the programs and manifests of a fleet are.
type Build struct {
	Dir       string `json:"dir"`
	Bin       string `json:"bin"`
	Manifests string `json:"manifests"`
}

// builds are all that a fleet runs.
type builds struct {
	fleet  Build
	argoCD *Build // nil for a fleet without it
}

// recipe is one `go build`: a module beside this program, and what is made of
// it.
type recipe struct {
	module   string   // folder below hack/fleet
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

// fleetRecipes make what every fleet runs.
var fleetRecipes = []recipe{
	{
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
	},
	{module: "kwok", packages: []string{"."}, shows: "kwok"},
	{
		module:   "helm",
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
	},
}

// argoCDRecipes make what a fleet with Argo CD runs besides.
var argoCDRecipes = []recipe{{
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

// cacheRoot is the folder of everything that outlives a fleet.
func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return filepath.Join(cache, "karmada-direct"), nil
}

// ensureAllBuilt builds what a fleet of this configuration runs.
func ensureAllBuilt(ctx context.Context, config Config, out *progress) (builds, error) {
	if config.ArgoCD {
		for _, program := range machinePrograms {
			if _, err := exec.LookPath(program); err != nil {
				return builds{}, fmt.Errorf("a fleet with Argo CD needs %s on this machine, as in Debian's package of that name: %w", program, err)
			}
		}
	}
	fleet, err := ensureBuilt(ctx, fleetRecipes, out)
	if err != nil || !config.ArgoCD {
		return builds{fleet: fleet}, err
	}
	argoCD, err := ensureBuilt(ctx, argoCDRecipes, out)
	return builds{fleet: fleet, argoCD: &argoCD}, err
}

// ensureBuilt builds by recipes, unless the same sources were built before. Two
// that ask at once build once.
func ensureBuilt(ctx context.Context, recipes []recipe, out *progress) (Build, error) {
	sources, err := sourceDir()
	if err != nil {
		return Build{}, err
	}
	root, err := cacheRoot()
	if err != nil {
		return Build{}, err
	}
	hash, err := hashSources(sources, recipes)
	if err != nil {
		return Build{}, err
	}
	b := newBuild(filepath.Join(root, hash))
	if _, err := os.Stat(b.Dir); err == nil {
		return b, nil
	}
	lock, err := lockFile(ctx, b.Dir+".lock")
	if err != nil {
		return Build{}, err
	}
	defer lock.release()
	if _, err := os.Stat(b.Dir); err == nil {
		return b, nil // somebody else built it while this one waited
	}
	return b, b.make(ctx, sources, recipes, out)
}

func newBuild(dir string) Build {
	return Build{Dir: dir, Bin: filepath.Join(dir, "bin"), Manifests: filepath.Join(dir, "manifests")}
}

// make builds everything beside the place where it belongs and then moves it
// there, so that what is there is always whole.
func (b Build) make(ctx context.Context, sources string, recipes []recipe, out *progress) error {
	partial := newBuild(b.Dir + ".partial")
	if err := os.RemoveAll(partial.Dir); err != nil { // of a build that was interrupted
		return fmt.Errorf("clearing an unfinished build: %w", err)
	}
	if err := os.MkdirAll(partial.Bin, 0o755); err != nil {
		return fmt.Errorf("making the folder of programs: %w", err)
	}
	out.println("Building programs of a fleet into %s.", b.Bin)
	out.println("That takes some minutes the first time, and none from then on.")
	for _, r := range recipes {
		if err := r.build(ctx, sources, partial, out); err != nil {
			return fmt.Errorf("building %s: %w", r.shows, err)
		}
	}
	return os.Rename(partial.Dir, b.Dir)
}

// build carries a recipe out.
func (r recipe) build(ctx context.Context, sources string, b Build, out *progress) error {
	dir := filepath.Join(sources, r.module)
	done := out.spin("%s", r.shows)
	defer done()
	ldflags, err := r.linkerFlags(ctx, dir)
	if err != nil {
		return err
	}
	args := []string{"build", "-v", "-buildvcs=false", "-ldflags=" + ldflags, "-o", b.Bin + string(filepath.Separator)}
	if r.patch.module != "" {
		patched := filepath.Join(b.Dir, "patched")
		defer func() { _ = os.RemoveAll(patched) }() // nothing of it is needed any more
		modfile, err := r.patch.apply(ctx, dir, patched)
		if err != nil {
			return err
		}
		args = append(args, "-modfile="+modfile)
	}
	cmd := goCommand(ctx, dir, append(args, r.packages...)...)
	output := &buildOutput{progress: out}
	cmd.Stderr = output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, output.rest())
	}
	return r.finish(ctx, dir, b)
}

// finish names the programs and copies the manifests.
func (r recipe) finish(ctx context.Context, dir string, b Build) error {
	for _, name := range r.links {
		if err := os.Symlink(r.module, filepath.Join(b.Bin, name)); err != nil {
			return fmt.Errorf("naming the programs: %w", err)
		}
	}
	if len(r.manifests) == 0 {
		return nil
	}
	from, err := goList(ctx, dir, "{{.Dir}}", r.manifestsOf)
	if err != nil {
		return err
	}
	for _, path := range r.manifests {
		if err := copyTree(filepath.Join(from, path), filepath.Join(b.Manifests, path)); err != nil {
			return fmt.Errorf("copying the manifests: %w", err)
		}
	}
	return nil
}

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

// goList asks for a property of a module.
func goList(ctx context.Context, dir, format, module string) (string, error) {
	cmd := goCommand(ctx, dir, "list", "-mod=readonly", "-m", "-f", format, module)
	output, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("asking for module %s: %w", module, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// goCommand runs the go tool in one of the modules, as if there were no
// workspace file.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+dir)
	return cmd
}

// sourceDir finds hack/fleet: above or below the working folder, or else where
// this program was compiled.
func sourceDir() (string, error) {
	isIt := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "components", "go.mod"))
		return err == nil
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding hack/fleet: %w", err)
	}
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if candidate := filepath.Join(dir, "hack", "fleet"); isIt(candidate) {
			return candidate, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok && isIt(filepath.Dir(file)) {
		return filepath.Dir(file), nil
	}
	return "", fmt.Errorf("finding hack/fleet: %s is not in a checkout of the repository", cwd)
}

// hashSources names a build after all that goes into it.
func hashSources(sources string, recipes []recipe) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, recipes)
	for _, r := range recipes {
		root := os.DirFS(filepath.Join(sources, r.module))
		err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(root, path)
			fmt.Fprintf(hash, "%s/%s %d\n%s", r.module, path, len(data), data)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading the sources of %s: %w", r.shows, err)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// copyTree copies a file or a folder.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(to, relative), data, 0o644)
	})
}
