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
	Dir       string
	Bin       string
	Manifests string
}

// recipe is one `go build`: a module beside this program, and the names its
// programs get.
type recipe struct {
	module   string   // folder below hack/fleet
	packages []string // each becomes a program of its folder's name
	shows    string   // what the user sees while it is built
	ldflags  []string // -X values
}

const karmadaModule = "github.com/karmada-io/karmada"

var recipes = []recipe{
	{
		module:   "components",
		packages: []string{".", "./aggregated-apiserver"},
		shows:    "etcd, Kubernetes and Karmada",
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

// links are the names by which the components program is called.
var links = []string{
	programEtcd, programKubeAPIServer, programKubeControllerManager, programKubeScheduler, programKubectl,
	programKarmadaControllerManager, programKarmadaScheduler, programKarmadaWebhook, programKarmadaAgent, programKarmadactl,
}

// manifests are the files of Karmada's module that are installed into its API
// server.
var manifests = []string{
	"charts/karmada/_crds/bases",
	"charts/karmada/_crds/patches",
	"artifacts/deploy/webhook-configuration.yaml",
	"artifacts/deploy/admin-clusterrole-aggregation.yaml",
	"artifacts/deploy/cluster-proxy-admin-rbac.yaml",
}

// cacheRoot is the folder of everything that outlives a fleet.
func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return filepath.Join(cache, "karmada-direct"), nil
}

// ensureBuilt builds what a fleet runs, unless the same sources were built
// before. Two that ask at once build once.
func ensureBuilt(ctx context.Context, out *progress) (Build, error) {
	sources, err := sourceDir()
	if err != nil {
		return Build{}, err
	}
	root, err := cacheRoot()
	if err != nil {
		return Build{}, err
	}
	hash, err := hashSources(sources)
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
	return b, b.make(ctx, sources, out)
}

func newBuild(dir string) Build {
	return Build{Dir: dir, Bin: filepath.Join(dir, "bin"), Manifests: filepath.Join(dir, "manifests")}
}

// make builds everything beside the place where it belongs and then moves it
// there, so that what is there is always whole.
func (b Build) make(ctx context.Context, sources string, out *progress) error {
	partial := newBuild(b.Dir + ".partial")
	if err := os.RemoveAll(partial.Dir); err != nil { // of a build that was interrupted
		return fmt.Errorf("clearing an unfinished build: %w", err)
	}
	if err := os.MkdirAll(partial.Bin, 0o755); err != nil {
		return fmt.Errorf("making the folder of programs: %w", err)
	}
	out.println("Building the programs of a fleet into %s.", b.Bin)
	out.println("That takes some minutes the first time, and none from then on.")
	for _, r := range recipes {
		if err := r.build(ctx, sources, partial.Bin, out); err != nil {
			return fmt.Errorf("building %s: %w", r.shows, err)
		}
	}
	if err := partial.finish(ctx, sources); err != nil {
		return err
	}
	return os.Rename(partial.Dir, b.Dir)
}

// finish names the programs and copies Karmada's manifests.
func (b Build) finish(ctx context.Context, sources string) error {
	if err := os.Rename(filepath.Join(b.Bin, "aggregated-apiserver"), filepath.Join(b.Bin, programKarmadaAggregated)); err != nil {
		return fmt.Errorf("naming the programs: %w", err)
	}
	for _, name := range links {
		if err := os.Symlink("components", filepath.Join(b.Bin, name)); err != nil {
			return fmt.Errorf("naming the programs: %w", err)
		}
	}
	karmada, err := goList(ctx, filepath.Join(sources, "components"), "{{.Dir}}", karmadaModule)
	if err != nil {
		return err
	}
	for _, path := range manifests {
		if err := copyTree(filepath.Join(karmada, path), filepath.Join(b.Manifests, path)); err != nil {
			return fmt.Errorf("copying Karmada's manifests: %w", err)
		}
	}
	return nil
}

func (r recipe) build(ctx context.Context, sources, bin string, out *progress) error {
	dir := filepath.Join(sources, r.module)
	done := out.spin("%s", r.shows)
	defer done()
	ldflags, err := r.linkerFlags(ctx, dir)
	if err != nil {
		return err
	}
	args := []string{"build", "-v", "-buildvcs=false", "-mod=readonly", "-ldflags=" + ldflags, "-o", bin + string(filepath.Separator)}
	cmd := goCommand(ctx, dir, append(args, r.packages...)...)
	output := &buildOutput{progress: out}
	cmd.Stderr = output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, output.rest())
	}
	return nil
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
func hashSources(sources string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, recipes, links, manifests)
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

// buildOutput turns what `go build -v` says into progress, and keeps what is
// neither a package nor a download: the errors.
type buildOutput struct {
	progress  *progress
	line      []byte
	messages  []string
	compiled  int
	downloads int
}

func (o *buildOutput) Write(data []byte) (int, error) {
	o.line = append(o.line, data...)
	for {
		line, after, found := bytes.Cut(o.line, []byte("\n"))
		if !found {
			return len(data), nil
		}
		o.take(string(line))
		o.line = after
	}
}

func (o *buildOutput) take(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		o.downloads++
		o.progress.detail("%d modules downloaded", o.downloads)
	case line != "" && !strings.ContainsAny(line, " \t:#"):
		o.compiled++
		o.progress.detail("%d packages compiled", o.compiled)
	default:
		o.messages = append(o.messages, line)
	}
}

func (o *buildOutput) rest() string {
	return strings.Join(append(o.messages, string(o.line)), "\n")
}
