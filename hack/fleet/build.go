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
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Build holds the paths of a fleet's programs and manifests.
type Build struct {
	Dir       string `json:"dir"`
	Bin       string `json:"bin"`
	Manifests string `json:"manifests"`
}

// builds holds all builds of a fleet.
type builds struct {
	fleet  Build
	argoCD *Build // nil for a fleet without Argo CD
}

// cacheRoot returns the folder of everything that outlives a fleet.
func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return filepath.Join(cache, "karmada-direct"), nil
}

// ensureAllBuilt builds everything that a fleet of this configuration runs.
func ensureAllBuilt(ctx context.Context, config Config, out *progress) (builds, error) {
	if config.ArgoCD {
		for _, program := range machinePrograms {
			if _, err := exec.LookPath(program); err != nil {
				return builds{}, fmt.Errorf("a fleet with Argo CD needs %s on this machine, as in Debian's package of that name: %w", program, err)
			}
		}
	}
	recipes, err := recipesOf(config.KarmadaVersion)
	if err != nil {
		return builds{}, err
	}
	fleet, err := ensureBuilt(ctx, recipes, out)
	if err != nil || !config.ArgoCD {
		return builds{fleet: fleet}, err
	}
	argoCD, err := ensureBuilt(ctx, argoCDRecipes, out)
	return builds{fleet: fleet, argoCD: &argoCD}, err
}

// ensureBuilt builds recipes, unless their sources were built before, and returns
// one folder with all results.
func ensureBuilt(ctx context.Context, recipes []recipe, out *progress) (Build, error) {
	sources, err := sourceDir()
	if err != nil {
		return Build{}, err
	}
	root, err := cacheRoot()
	if err != nil {
		return Build{}, err
	}
	made := make([]Build, len(recipes))
	for i, r := range recipes {
		if made[i], err = r.ensureBuilt(ctx, sources, root, out); err != nil {
			return Build{}, err
		}
	}
	if len(made) == 1 {
		return made[0], nil
	}
	return combine(ctx, root, made)
}

// ensureBuilt builds one recipe.
func (r recipe) ensureBuilt(ctx context.Context, sources, root string, out *progress) (Build, error) {
	hash, err := r.hash(sources)
	if err != nil {
		return Build{}, err
	}
	return makeOnce(ctx, filepath.Join(root, r.name+"-"+hash), func(b, partial Build) error {
		out.println("Building %s into %s.", r.shows, b.Dir)
		out.println("This takes several minutes the first time. Later runs reuse the result.")
		if err := r.build(ctx, sources, partial, out); err != nil {
			return fmt.Errorf("building %s: %w", r.shows, err)
		}
		return nil
	})
}

// combine creates a folder with links to everything in other builds.
func combine(ctx context.Context, root string, made []Build) (Build, error) {
	hash := sha256.New()
	for _, b := range made {
		fmt.Fprintln(hash, b.Dir)
	}
	return makeOnce(ctx, filepath.Join(root, "all-"+shortHash(hash)), func(_, partial Build) error {
		for _, b := range made {
			if err := errors.Join(linkTree(b.Bin, partial.Bin), linkTree(b.Manifests, partial.Manifests)); err != nil {
				return fmt.Errorf("linking the programs: %w", err)
			}
		}
		return nil
	})
}

// makeOnce creates a folder next to its final path and then renames it, so that the
// folder is always complete. Concurrent calls create it only once.
func makeOnce(ctx context.Context, dir string, fill func(b, partial Build) error) (Build, error) {
	b := newBuild(dir)
	if b.isWhole() {
		return b, nil
	}
	lock, err := lockFile(ctx, b.Dir+".lock")
	if err != nil {
		return Build{}, err
	}
	defer lock.release()
	if b.isWhole() {
		return b, nil // another process made it in the meantime
	}
	partial := newBuild(b.Dir + ".partial")
	// They may be left from an interrupted build, or from one whose parts are gone.
	if err := errors.Join(os.RemoveAll(partial.Dir), os.RemoveAll(b.Dir)); err != nil {
		return Build{}, fmt.Errorf("clearing an unfinished build: %w", err)
	}
	if err := os.MkdirAll(partial.Bin, 0o755); err != nil {
		return Build{}, fmt.Errorf("creating the folder of programs: %w", err)
	}
	if err := fill(b, partial); err != nil {
		return Build{}, err
	}
	return b, os.Rename(partial.Dir, b.Dir)
}

func newBuild(dir string) Build {
	return Build{Dir: dir, Bin: filepath.Join(dir, "bin"), Manifests: filepath.Join(dir, "manifests")}
}

// isWhole reports whether the build exists, with all programs that it links to.
func (b Build) isWhole() bool {
	programs, err := os.ReadDir(b.Bin)
	return err == nil && !slices.ContainsFunc(programs, func(program fs.DirEntry) bool {
		_, err := os.Stat(filepath.Join(b.Bin, program.Name()))
		return err != nil
	})
}

// build runs a recipe.
func (r recipe) build(ctx context.Context, sources string, b Build, out *progress) error {
	dir := filepath.Join(sources, r.module)
	done := out.spin("%s", r.shows)
	defer done()
	modfile := r.modfileIn(sources)
	ldflags, err := r.linkerFlags(ctx, dir, modfile)
	if err != nil {
		return err
	}
	args := []string{"build", "-v", "-buildvcs=false", "-ldflags=" + ldflags, "-o", b.Bin + string(filepath.Separator)}
	if r.patch.module != "" {
		patched := filepath.Join(b.Dir, "patched")
		defer func() { _ = os.RemoveAll(patched) }() // the copy is no longer needed
		if modfile, err = r.patch.apply(ctx, dir, patched); err != nil {
			return err
		}
	}
	if modfile != "" {
		args = append(args, "-modfile="+modfile)
	}
	cmd := goCommand(ctx, dir, append(args, r.packages...)...)
	output := &buildOutput{progress: out}
	cmd.Stderr = output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, output.rest())
	}
	return r.finish(ctx, dir, r.modfileIn(sources), b)
}

// finish creates the links to the programs and copies the manifests.
func (r recipe) finish(ctx context.Context, dir, modfile string, b Build) error {
	for _, name := range r.links {
		if err := os.Symlink(r.module, filepath.Join(b.Bin, name)); err != nil {
			return fmt.Errorf("linking the programs: %w", err)
		}
	}
	if len(r.manifests) == 0 {
		return nil
	}
	from, err := goList(ctx, dir, modfile, "{{.Dir}}", r.manifestsOf)
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

// goList returns a property of a module. If modfile is not empty, it replaces the
// go.mod file in dir.
func goList(ctx context.Context, dir, modfile, format, module string) (string, error) {
	args := []string{"list", "-mod=readonly"}
	if modfile != "" {
		args = append(args, "-modfile="+modfile)
	}
	cmd := goCommand(ctx, dir, append(args, "-m", "-f", format, module)...)
	output, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("querying module %s: %w", module, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// goCommand returns a go command that runs in the folder of a module and ignores
// workspace files.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+dir)
	return cmd
}

// sourceDir finds hack/fleet: in the working folder or one of its parents, or else
// where this program was compiled.
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

// hash returns a hash of everything that affects a build.
func (r recipe) hash(sources string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, r)
	root := os.DirFS(filepath.Join(sources, r.module))
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !r.readsFile(path) {
			return err
		}
		data, err := fs.ReadFile(root, path)
		fmt.Fprintf(hash, "%s/%s %d\n%s", r.module, path, len(data), data)
		return err
	})
	if modfile := r.modfileIn(sources); err == nil && modfile != "" {
		var data []byte
		data, err = os.ReadFile(modfile)
		fmt.Fprintf(hash, "%s %d\n%s", r.modfile, len(data), data)
	}
	if err != nil {
		return "", fmt.Errorf("reading the sources of %s: %w", r.shows, err)
	}
	return shortHash(hash), nil
}

// readsFile reports whether a file of the recipe's module affects the build. If the
// recipe builds no package of that module, only the versions do.
func (r recipe) readsFile(path string) bool {
	return strings.HasPrefix(r.packages[0], ".") || path == "go.mod" || path == "go.sum"
}

func shortHash(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil))[:16] }

// linkTree creates a link in one folder for every entry of another, if that exists.
func linkTree(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return nil
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
