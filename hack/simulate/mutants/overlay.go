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
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module = "github.com/karmada-direct/karmada-direct"
	// simulation is the folder of the simulation.
	simulation = "hack/simulate"
	// checkedWith is a package of the controller with which the simulation checks the
	// controller. It gets a copy of it without mutants, in the folder original.
	checkedWith = "controllers/render"
	original    = "hack/simulate/mutants/original"
)

// overlay is what go build reads after -overlay: a file to read instead of another one,
// which need not exist.
type overlay struct {
	Replace map[string]string
}

// writeOverlay writes all mutants and an overlay with them into a folder. root is the
// folder of the repository. It returns the name of the overlay.
func writeOverlay(root, folder string, table []Mutant) (string, error) {
	edits, err := editsByFile(table)
	if err != nil {
		return "", err
	}
	result := overlay{Replace: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		path := filepath.Join(root, name)
		source, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			return "", fmt.Errorf("reading a file with mutants: %w", err)
		}
		changed, err := rewrite(name, source, edits[name])
		if err != nil {
			return "", err
		}
		if err := result.replace(path, folder, changed); err != nil {
			return "", err
		}
	}
	if err := result.keepOriginal(root, folder); err != nil {
		return "", err
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	path := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(path, encoded, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return path, nil
}

// editsByFile sorts the edits of all mutants by the files that they change.
func editsByFile(table []Mutant) (map[string][]numbered, error) {
	edits, known := map[string][]numbered{}, map[string]bool{}
	for i := range table {
		mutant := &table[i]
		if known[mutant.Name] {
			return nil, fmt.Errorf("mutant %q: %w", mutant.Name, errTwice)
		}
		known[mutant.Name] = true
		for _, edit := range mutant.Edits {
			file := "controllers/" + edit.File
			edits[file] = append(edits[file], numbered{Edit: edit, number: i + 1, mutant: mutant.Name})
		}
	}
	return edits, nil
}

// replace has a file read instead of another one.
func (o *overlay) replace(path, folder string, content []byte) error {
	instead := filepath.Join(folder, fmt.Sprintf("%d_%s", len(o.Replace), filepath.Base(path)))
	if err := os.WriteFile(instead, content, 0o600); err != nil {
		return fmt.Errorf("writing a file of the overlay: %w", err)
	}
	o.Replace[path] = instead
	return nil
}

// keepOriginal gives the simulation its own copy of the package with which it checks.
// Otherwise, a mutant would change the check as well.
func (o *overlay) keepOriginal(root, folder string) error {
	sources, err := filepath.Glob(filepath.Join(root, checkedWith, "*.go"))
	if err != nil {
		return fmt.Errorf("finding the files of %s: %w", checkedWith, err)
	}
	for _, path := range sources {
		if !strings.HasSuffix(path, "_test.go") {
			o.Replace[filepath.Join(root, original, filepath.Base(path))] = path
		}
	}
	checks, err := filepath.Glob(filepath.Join(root, simulation, "*.go"))
	if err != nil {
		return fmt.Errorf("finding the files of %s: %w", simulation, err)
	}
	for _, path := range checks {
		source, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			return fmt.Errorf("reading a check: %w", err)
		}
		changed := strings.ReplaceAll(string(source), fmt.Sprintf("%q", module+"/"+checkedWith), fmt.Sprintf("%q", module+"/"+original))
		if changed == string(source) {
			continue
		}
		if err := o.replace(path, folder, []byte(changed)); err != nil {
			return err
		}
	}
	return nil
}
