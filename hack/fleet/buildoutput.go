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
	"strings"
)

// buildOutput turns the output of `go build -v` into progress. It keeps the lines
// that are neither packages nor downloads: the errors.
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
