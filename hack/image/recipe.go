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
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// built is the path of the program in the first stage of the Dockerfile.
const built = "/out/controller-manager"

// recipe is the last stage of a Dockerfile that copies one program into an empty
// image.
type recipe struct {
	destination string // path of the program in the image
	copied      string // the COPY instruction
	user        string
	entrypoint  []string
	labels      map[string]string
}

// readRecipe parses a Dockerfile. It rejects what it does not support, so that it
// never builds a different image than Docker would.
func readRecipe(file io.Reader) (*recipe, error) {
	parsed, err := parser.Parse(file)
	if err != nil {
		return nil, err
	}
	stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{}))
	if err != nil {
		return nil, err
	}
	if err := pinned(stages); err != nil {
		return nil, err
	}
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		return nil, fmt.Errorf("the last stage is from %s, want scratch", last.BaseName)
	}
	r := &recipe{labels: map[string]string{}}
	for _, command := range last.Commands {
		if err := r.take(command); err != nil {
			return nil, err
		}
	}
	if r.destination == "" || r.user == "" || len(r.entrypoint) == 0 {
		return nil, errors.New("the last stage lacks one of COPY, USER, ENTRYPOINT")
	}
	return r, nil
}

// byDigest matches a reference to an image that cannot change.
var byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

// pinned returns an error if the base of a stage is a tag, which can be moved.
func pinned(stages []instructions.Stage) error {
	for i := range stages {
		if base := stages[i].BaseName; base != "scratch" && !byDigest.MatchString(base) {
			return fmt.Errorf("stage %d is from %s, want an image by its digest, name:tag@sha256:…", i, base)
		}
	}
	return nil
}

func (r *recipe) take(command instructions.Command) error {
	switch typed := command.(type) {
	case *instructions.LabelCommand:
		// The parser keeps quotes and variables. No variables are defined.
		if err := typed.Expand(func(word string) (string, error) {
			plain, _, err := shell.NewLex('\\').ProcessWord(word, shell.EnvsFromSlice(nil))
			return plain, err
		}); err != nil {
			return err
		}
		for _, label := range typed.Labels {
			r.labels[label.Key] = label.Value
		}
	case *instructions.CopyCommand:
		if r.destination != "" || typed.From != "build" || len(typed.SourcePaths) != 1 || typed.SourcePaths[0] != built || typed.Chown != "" || typed.Chmod != "" {
			return fmt.Errorf("%s: want one COPY --from=build %s, and nothing more", typed, built)
		}
		r.destination, r.copied = typed.DestPath, typed.String()
	case *instructions.UserCommand:
		r.user = typed.User
	case *instructions.EntrypointCommand:
		if typed.PrependShell {
			return fmt.Errorf("%s: there is no shell in the image; write it as a list", typed)
		}
		r.entrypoint = typed.CmdLine
	default:
		return fmt.Errorf("%s: this instruction is not supported", command.Name())
	}
	return nil
}
