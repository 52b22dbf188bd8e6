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
	"io"
	"os"
	"path/filepath"
	"strings"
)

const sumsFile = "SHA256SUMS"

// writeSums writes the checksums of all files of a folder, for sha256sum --check.
func writeSums(folder string) error {
	files, err := os.ReadDir(folder) // sorted
	if err != nil {
		return err
	}
	sums := &strings.Builder{}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(sums, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name())
	}
	return writeFile(filepath.Join(folder, sumsFile), sums.String())
}

// checkAgain builds from a copy of the sources in another folder and compares. The
// Go build cache is the same: to compile again too, empty it or use another machine.
func checkAgain(ctx context.Context, o order) error {
	scratch, err := os.MkdirTemp("", "release-check-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	again := o
	again.tree, again.output = filepath.Join(scratch, "another", "folder"), filepath.Join(scratch, "release")
	fmt.Fprintf(o.progress, "release: building again, from a copy of the sources\n")
	if err := copySources(ctx, o.root, again.tree); err != nil {
		return err
	}
	if err := build(ctx, again); err != nil {
		return err
	}
	return compare(o.output, again.output)
}

// copySources copies what git knows or would add, as it is in the working tree.
func copySources(ctx context.Context, root, to string) error {
	listed, err := git(ctx, root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		source := filepath.Join(root, filepath.FromSlash(name))
		info, err := os.Stat(source)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but not yet committed
		}
		if err != nil {
			return err
		}
		if err := copyFile(source, filepath.Join(to, filepath.FromSlash(name)), info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// compare returns an error that names every file of which two folders do not have
// the same bytes.
func compare(a, b string) error {
	names := map[string]bool{}
	for _, folder := range []string{a, b} {
		files, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, f := range files {
			names[f.Name()] = true
		}
	}
	var differences error
	for name := range names {
		one, err := os.ReadFile(filepath.Join(a, name))
		other, otherErr := os.ReadFile(filepath.Join(b, name))
		if err := errors.Join(err, otherErr); err != nil {
			differences = errors.Join(differences, err)
		} else if !bytes.Equal(one, other) {
			differences = errors.Join(differences, fmt.Errorf("%s is different in a second build", name))
		}
	}
	return differences
}
